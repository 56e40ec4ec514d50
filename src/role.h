/*
 * role.h
 *	  The type dexp3.role: a role that may be renamed, dropped, or not be there yet.
 */
#ifndef DEXP3_ROLE_H
#define DEXP3_ROLE_H

#include "postgres.h"

typedef struct Role
{
	Oid			oid;			/* InvalidOid if there was none of this name */
	NameData	name;			/* as it was then */
} Role;

#define DatumGetRoleP(X)	((Role *) DatumGetPointer(X))

extern Oid	role_oid(const Role *role);
extern const char *role_name(const Role *role);
extern bool role_is_public(const Role *role);

#endif							/* DEXP3_ROLE_H */
