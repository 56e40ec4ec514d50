-- What SQLsmith is let loose on. It uses the tables, views and functions that it
-- finds, with columns and constants as arguments; so here are bandits, states,
-- tickets, losses, and the functions of the extension.

CREATE EXTENSION dexp3;
GRANT CREATE ON SCHEMA public TO smith;
CREATE SCHEMA smith AUTHORIZATION smith;
SET SESSION AUTHORIZATION smith;
SET search_path = public;

-- Bandits with some history, of which some decisions are open.
SELECT bandit_create('self-tuned', '{a,b,c}'),
       bandit_create('forgetful', '{a,b,c,d}', optimism => 1, half_life => '1 s'),
       bandit_create('dada', '{a,b,c}', 'dada', patience => 5),
       bandit_create('ix', '{a,b}', 'dada-ix', skipping => false),
       bandit_create('deda', '{a,b,c,d}', 'deda', max_delay => 3);

CREATE TABLE decision AS
SELECT n, d.decision_id, d.arm, d.probability, (n % 11) / 10.0::float8 AS loss, name AS bandit
FROM generate_series(1, 60) n, unnest(ARRAY['self-tuned', 'forgetful', 'dada', 'ix', 'deda']) AS name,
     bandit_choose_each(name, n, allowed => CASE WHEN n % 10 = 0 THEN '{a,b}'::text[] END) AS d;
SELECT bandit_feedback(decision_id, loss) FROM decision WHERE n % 3 > 0;
SELECT bandit_retire_arm('forgetful', 'd'), bandit_add_arm('forgetful', 'e');

-- Feedback by triggers, of each kind.
CREATE TABLE outcome (decision_id bigint PRIMARY KEY, loss float8);
CREATE TRIGGER each_row AFTER INSERT OR UPDATE ON outcome FOR EACH ROW
    EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
INSERT INTO outcome SELECT decision_id, loss FROM decision WHERE n < 10;
CREATE TABLE sale (decision_id bigint, reward float8);
CREATE TRIGGER inserted AFTER INSERT ON sale REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'reward', 'reward');
CREATE TRIGGER updated AFTER UPDATE ON sale REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'reward', 'reward');
INSERT INTO sale SELECT decision_id, 1 - loss FROM decision WHERE n > 50;

-- States and tickets in columns.
CREATE TABLE learner (id integer PRIMARY KEY, state bandit_state, ticket bandit_ticket,
                      loss float8, algorithm text, losses float8[], delays integer[]);
INSERT INTO learner
SELECT id, (d).state, (d).ticket, id / 9.0, algorithm, ARRAY[[0, 1], [0.5, 0.5], [1, id / 9.0]], ARRAY[0, id, NULL]
FROM (SELECT id, algorithm, bandit_draw(bandit_new(2 + id % 5, algorithm), CASE algorithm WHEN 'deda' THEN id END) AS d
      FROM generate_series(0, 11) AS id,
           unnest(ARRAY['self-tuned', 'dada', 'dada-ix', 'deda']) WITH ORDINALITY AS a (algorithm, n)
      WHERE id % 4 = n - 1) AS drawn;
INSERT INTO learner (id) VALUES (12);

-- SQLsmith calls no function that returns a set, but it reads views.
CREATE VIEW choice AS SELECT * FROM bandit_choose('dada');
CREATE VIEW choice_restricted AS SELECT * FROM bandit_choose('self-tuned', allowed => '{b,c}');
CREATE VIEW choices AS SELECT n, c.* FROM generate_series(1, 3) AS n, bandit_choose_each('ix', n) AS c;
CREATE VIEW probability AS
SELECT bandit, p.* FROM unnest(ARRAY['self-tuned', 'forgetful', 'dada', 'ix', 'deda']) AS bandit,
     bandit_probabilities(bandit) AS p;
CREATE VIEW advice AS SELECT * FROM bandit_advice();
CREATE VIEW delays AS SELECT * FROM bandit_delays('self-tuned', '1 s');
CREATE VIEW simulation AS
SELECT s.* FROM learner AS l, bandit_simulate(losses, delays, algorithm, seed => id) AS s WHERE id < 12;
CREATE VIEW simulation_window AS
SELECT s.* FROM learner AS l,
     bandit_simulate(losses, '{{0,NULL},{3,1},{NULL,2}}', feedback_window => id, missing_loss => loss, seed => id) AS s
WHERE id BETWEEN 1 AND 9;
CREATE VIEW rehearsal AS
SELECT r.* FROM learner AS l,
     bandit_rehearse('{a,b,b}', ARRAY[0, 1, loss], delays => delays, seed => id, feedback_window => id) AS r WHERE id < 10;
CREATE VIEW simulation_forgetful AS
SELECT s.* FROM learner AS l, bandit_simulate(losses, delays, optimism => 1, half_life => 1 + id, seed => id) AS s
WHERE id < 12;
CREATE VIEW drawn AS
SELECT id, (d).state, (d).ticket
FROM (SELECT id, bandit_draw(state, CASE algorithm WHEN 'deda' THEN 1 END) AS d FROM learner WHERE id < 12) AS x;

-- Most of the calls that it makes are of functions without arguments.
CREATE FUNCTION any_bandit() RETURNS text LANGUAGE sql
    RETURN (ARRAY['self-tuned', 'forgetful', 'dada', 'ix', 'deda'])[1 + floor(5 * random())];
CREATE FUNCTION any_algorithm() RETURNS text LANGUAGE sql
    RETURN (ARRAY['self-tuned', 'dada', 'dada-ix', 'deda'])[1 + floor(4 * random())];
CREATE FUNCTION any_decision() RETURNS bigint LANGUAGE sql
    RETURN floor(320 * random());
CREATE FUNCTION any_loss() RETURNS float8 LANGUAGE sql
    RETURN random();
CREATE FUNCTION any_state() RETURNS bandit_state LANGUAGE sql
    RETURN (SELECT state FROM learner WHERE id = floor(12 * random()));
CREATE FUNCTION any_ticket() RETURNS bandit_ticket LANGUAGE sql
    RETURN (SELECT ticket FROM learner WHERE id = floor(12 * random()));
CREATE FUNCTION make_bandit() RETURNS integer LANGUAGE sql
    RETURN bandit_create('new' || random(), ARRAY['a', 'b'], any_algorithm());
CREATE FUNCTION choose() RETURNS bigint LANGUAGE sql
    RETURN (SELECT decision_id FROM bandit_choose(any_bandit()));
CREATE FUNCTION feed() RETURNS text LANGUAGE sql
    RETURN bandit_feedback(any_decision(), any_loss());
CREATE FUNCTION reward() RETURNS text LANGUAGE sql
    RETURN bandit_reward(any_decision(), any_loss());
CREATE FUNCTION choose_and_feed() RETURNS text LANGUAGE sql
    RETURN bandit_feedback(choose(), any_loss());
CREATE FUNCTION reset_bandit() RETURNS boolean LANGUAGE sql
    RETURN bandit_reset(any_bandit()) IS NULL;
CREATE FUNCTION drop_bandit() RETURNS boolean LANGUAGE sql
    RETURN bandit_drop(any_bandit()) IS NULL;
CREATE FUNCTION add_arm() RETURNS boolean LANGUAGE sql
    RETURN bandit_add_arm(any_bandit(), 'new' || random()) IS NULL;
CREATE FUNCTION retire_arm() RETURNS boolean LANGUAGE sql
    RETURN bandit_retire_arm(any_bandit(), 'a') IS NULL;
CREATE FUNCTION regret() RETURNS float8 LANGUAGE sql
    RETURN bandit_regret_estimate(any_bandit());
CREATE FUNCTION regret_bound() RETURNS float8 LANGUAGE sql
    RETURN bandit_regret_bound(any_bandit());
CREATE FUNCTION forgetful_state() RETURNS bandit_state LANGUAGE sql
    RETURN bandit_new(2 + floor(5 * random())::integer, optimism => 1 - random(), half_life => 1 + 10 * random());
CREATE FUNCTION current_state() RETURNS bandit_state LANGUAGE sql
    RETURN bandit_current_state(any_bandit());
CREATE FUNCTION new_state() RETURNS bandit_state LANGUAGE sql
    RETURN bandit_new(2 + floor(5 * random())::integer, any_algorithm());
CREATE FUNCTION learn() RETURNS bandit_state LANGUAGE sql
    RETURN (SELECT bandit_learn(state, ticket, any_loss()) FROM learner WHERE id = floor(12 * random()));
CREATE FUNCTION probabilities() RETURNS float8[] LANGUAGE sql
    RETURN bandit_probabilities(any_state());

-- It looks for functions in "pg_proc". Among PostgreSQL's own 3,000 ours would be
-- rare; so here is another one, first in the search path, that has of those only
-- aggregates and window functions, and none of pseudo-types.
CREATE VIEW smith.pg_proc AS
SELECT * FROM pg_catalog.pg_proc
WHERE pronamespace IN ('public'::regnamespace, 'dexp3'::regnamespace)
   OR pronamespace = 'pg_catalog'::regnamespace AND prokind <> 'f'
      AND NOT EXISTS (SELECT FROM pg_type t
                      WHERE t.oid = ANY (proargtypes || prorettype) AND typtype = 'p');

-- It casts to pseudo-types where an operator has one, which is always an error.
-- So let such a type go under the name of a real one. Of types with the same name
-- it knows the last best.
CREATE TYPE color AS ENUM ('red', 'green');
CREATE VIEW smith.pg_type AS
SELECT pseudo.oid, actual.typname, actual.typnamespace, actual.typdelim, actual.typrelid, actual.typelem,
       actual.typarray, actual.typtype
FROM (VALUES ('anyrange', 'int4range'), ('anymultirange', 'int4multirange'), ('anyenum', 'public.color'),
             ('anyelement', 'int4'), ('anycompatible', 'int4')) AS instead (pseudo, actual),
     pg_catalog.pg_type AS pseudo, pg_catalog.pg_type AS actual
WHERE pseudo.oid = instead.pseudo::regtype AND actual.oid = instead.actual::regtype
UNION ALL
SELECT oid, typname, typnamespace, typdelim, typrelid, typelem, typarray, typtype
FROM pg_catalog.pg_type
WHERE oid NOT IN ('anyrange'::regtype, 'anymultirange'::regtype, 'anyenum'::regtype,
                  'anyelement'::regtype, 'anycompatible'::regtype);
