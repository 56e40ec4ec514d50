/*
 * role.c
 *	  The type dexp3.role: a role that may be renamed, dropped, or not be there yet.
 *
 * A value has the identifier of a role and its name.  Here the identifier counts,
 * so that a role keeps what it has when it is renamed, and whoever gets its name
 * afterwards does not inherit it.  Elsewhere, after a restore or replication, the
 * name counts: to the outside a value is nothing but the name, the present one if
 * the role is still there.
 *
 * If there is no role of a name, only the name is remembered; so a restore never
 * fails, and the role may come later.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "role.h"

PG_FUNCTION_INFO_V1(dexp3_role_in);
PG_FUNCTION_INFO_V1(dexp3_role_out);
PG_FUNCTION_INFO_V1(dexp3_role_recv);
PG_FUNCTION_INFO_V1(dexp3_role_send);
PG_FUNCTION_INFO_V1(dexp3_role_eq);
PG_FUNCTION_INFO_V1(dexp3_role_ne);
PG_FUNCTION_INFO_V1(dexp3_role_lt);
PG_FUNCTION_INFO_V1(dexp3_role_le);
PG_FUNCTION_INFO_V1(dexp3_role_gt);
PG_FUNCTION_INFO_V1(dexp3_role_ge);
PG_FUNCTION_INFO_V1(dexp3_role_cmp);

/*
 * Return the identifier, which may be that of a role that is gone; InvalidOid if
 * there is none of this name.
 */
Oid
role_oid(const Role *role)
{
	return OidIsValid(role->oid) ? role->oid : get_role_oid(NameStr(role->name), true);
}

/*
 * Return the present name; that of a role that is gone is the one it had.
 */
const char *
role_name(const Role *role)
{
	const char *name = NULL;

	if (OidIsValid(role->oid))
		name = GetUserNameFromId(role->oid, true);
	return name != NULL ? name : NameStr(role->name);
}

/*
 * Is it everybody?  No role can have that name.
 */
bool
role_is_public(const Role *role)
{
	return !OidIsValid(role->oid) && strcmp(NameStr(role->name), "public") == 0;
}

/* ----------
 * Input and output
 * ----------
 */

static Datum
make_role(const char *name, int len)
{
	Role	   *role = palloc0(sizeof(Role));

	/* as the type "name" does it */
	memcpy(NameStr(role->name), name, pg_mbcliplen(name, len, NAMEDATALEN - 1));
	role->oid = get_role_oid(NameStr(role->name), true);
	return PointerGetDatum(role);
}

Datum
dexp3_role_in(PG_FUNCTION_ARGS)
{
	const char *name = PG_GETARG_CSTRING(0);

	return make_role(name, strlen(name));
}

Datum
dexp3_role_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(pstrdup(role_name(DatumGetRoleP(PG_GETARG_DATUM(0)))));
}

Datum
dexp3_role_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			len;
	const char *name = pq_getmsgtext(buf, buf->len - buf->cursor, &len);

	return make_role(name, len);
}

Datum
dexp3_role_send(PG_FUNCTION_ARGS)
{
	const char *name = role_name(DatumGetRoleP(PG_GETARG_DATUM(0)));
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendtext(&buf, name, strlen(name));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

/* ----------
 * Comparison, by the names that are shown
 * ----------
 */

static int
compare(FunctionCallInfo fcinfo)
{
	return strcmp(role_name(DatumGetRoleP(PG_GETARG_DATUM(0))),
				  role_name(DatumGetRoleP(PG_GETARG_DATUM(1))));
}

/* NOLINTBEGIN(bugprone-macro-parentheses): operators have none */
#define COMPARISON(name, operator) \
Datum \
dexp3_role_##name(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(compare(fcinfo) operator 0); \
}
/* NOLINTEND(bugprone-macro-parentheses) */

COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

Datum
dexp3_role_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare(fcinfo));
}
