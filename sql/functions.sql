-- Every object of the extension: its functions with their labels and who may call
-- them, its relations and who may do what with them, and a comment on each.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
DROP ROLE IF EXISTS regress_dexp3_nobody;
RESET client_min_messages;

-- What a role without any grants can do, everybody can.
CREATE ROLE regress_dexp3_nobody;

-- Its objects.  The types that PostgreSQL makes for tables and arrays are among them
-- in some versions, and not in others.
CREATE TEMP VIEW member AS
    SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'dexp3'
      AND NOT EXISTS (SELECT FROM pg_depend i WHERE i.classid = d.classid AND i.objid = d.objid
                      AND d.classid = 'pg_type'::regclass AND i.deptype = 'i');

-- The functions.  Pure ones are immutable, strict unless they have optional
-- arguments, and safe in parallel queries.  What only draws is volatile and
-- restricted to the leader, like random().  What takes part in the log is volatile
-- and unsafe, and not strict: a silent null would lose a decision or a loss.
CREATE TEMP VIEW function AS
    SELECT p.oid, p.proname, p.oid::regprocedure::text AS name, pg_get_function_arguments(p.oid) AS arguments,
           pg_get_function_result(p.oid) AS result,
           CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
           p.proisstrict AS strict,
           CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel,
           CASE WHEN has_function_privilege('regress_dexp3_nobody', p.oid, 'EXECUTE')
                THEN 'everybody' ELSE 'owner' END AS callers,
           p.prosecdef, p.proconfig, l.lanname, p.probin, p.prosqlbody
    FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
         JOIN pg_language l ON l.oid = p.prolang;
SELECT name, volatility, strict, parallel, callers FROM function ORDER BY name COLLATE "C";

-- What they take and return, with defaults
\a \t
SELECT format(E'%s(%s)\n    RETURNS %s', proname, arguments, result) FROM function
WHERE callers = 'everybody' AND proname NOT LIKE 'bandit\_state\_%' ORDER BY name COLLATE "C";
\a \t

-- Nothing runs with the rights of somebody else, or has a search_path to attack:
-- everything is C, or SQL that was parsed when it was made.
SELECT name, lanname FROM function
WHERE CASE lanname WHEN 'c' THEN probin <> '$libdir/dexp3' WHEN 'sql' THEN prosqlbody IS NULL
          ELSE (name, lanname) NOT IN (('dexp3.success_in(cstring)', 'internal'), ('dexp3.success_out(dexp3.success)', 'internal')) END;
SELECT name FROM function WHERE lanname <> 'c' ORDER BY name COLLATE "C";
SELECT name FROM function
WHERE prosecdef AND NOT EXISTS (SELECT FROM unnest(proconfig) setting WHERE setting LIKE 'search\_path=%');

-- The relations, and what everybody may do with them
SELECT c.oid::regclass AS relation, c.relkind AS kind, c.relrowsecurity AS rls,
       ARRAY(SELECT privilege FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) privilege
             WHERE c.relkind <> 'S' AND has_table_privilege('regress_dexp3_nobody', c.oid, privilege)
             UNION ALL
             SELECT privilege FROM unnest('{USAGE,SELECT,UPDATE}'::text[]) privilege
             WHERE c.relkind = 'S' AND has_sequence_privilege('regress_dexp3_nobody', c.oid, privilege)) AS everybody,
       c.reloptions AS options
FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
ORDER BY c.relname;

SELECT c.oid::regclass AS relation, p.polname AS policy, p.polcmd AS command, p.polroles = '{0}' AS for_all,
       pg_get_expr(p.polqual, p.polrelid) AS condition
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
     JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
ORDER BY c.relname, p.polname;

SELECT n.nspname AS schema,
       ARRAY(SELECT privilege FROM unnest('{USAGE,CREATE}'::text[]) privilege
             WHERE has_schema_privilege('regress_dexp3_nobody', n.oid, privilege)) AS everybody
FROM pg_namespace n JOIN member m ON m.classid = 'pg_namespace'::regclass AND m.objid = n.oid;

-- The other objects
SELECT i.type, i.identity
FROM member m, pg_identify_object(m.classid, m.objid, 0) i
WHERE i.type NOT IN ('function', 'table', 'view', 'sequence', 'schema')
ORDER BY i.type, i.identity COLLATE "C";

-- Every object has a comment, every column of a table and of a composite type, and
-- every policy.
SELECT i.type, i.identity AS without_comment
FROM member m, pg_identify_object(m.classid, m.objid, 0) i
WHERE obj_description(m.objid, m.classid::regclass::name) IS NULL
ORDER BY 1, 2;
SELECT a.attrelid::regclass AS relation, a.attname AS column_without_comment
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE a.attnum > 0 AND NOT a.attisdropped AND col_description(a.attrelid, a.attnum) IS NULL
  AND (c.relkind IN ('r', 'p') AND NOT c.relispartition AND EXISTS (SELECT FROM member WHERE classid = 'pg_class'::regclass AND objid = c.oid)
       OR c.relkind = 'c' AND EXISTS (SELECT FROM member WHERE classid = 'pg_type'::regclass AND objid = c.reltype));
SELECT p.polrelid::regclass AS relation, p.polname AS policy_without_comment
FROM pg_policy p JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = p.polrelid
WHERE obj_description(p.oid, 'pg_policy') IS NULL;

DROP ROLE regress_dexp3_nobody;
