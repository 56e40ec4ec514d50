-- Set up the database that the fuzzer will run in, and export a corpus to the
-- directory "fuzz.corpus". This is for single-user mode: two line feeds end a
-- command.

CREATE EXTENSION dexp3;

CREATE FUNCTION fuzz_bandit_state(VARIADIC arguments text[]) RETURNS integer
LANGUAGE c AS '$libdir/dexp3';

-- States of all variants, fresh and played, with open rounds on both sides of a
-- word's end, in both forms.
CREATE TABLE corpus (id serial, state bandit_state);

CREATE PROCEDURE play(state bandit_state, rounds integer) LANGUAGE plpgsql AS $$
DECLARE
    drawn record;
BEGIN
    INSERT INTO corpus (state) VALUES (state);
    FOR t IN 1 .. rounds LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state, CASE WHEN state::text LIKE '%"max_delay": null%' THEN t % 3 END);
        state := drawn.state;
        IF t % 3 > 0 THEN
            state := bandit_learn(state, drawn.ticket, (t % 8) / 7.0);
        END IF;
        IF t IN (2, 10, rounds) THEN
            INSERT INTO corpus (state) VALUES (state);
        END IF;
    END LOOP;
END
$$;

DO $$ BEGIN PERFORM setseed(0.5); END $$;

CALL play(bandit_new(2), 12);

CALL play(bandit_new(3, optimism => 1), 12);

CALL play(bandit_new(2, half_life => 4), 20);

CALL play(bandit_new(5, optimism => 0.5, half_life => 0.7), 20);

CALL play('{"version": 1, "algorithm": "self-tuned", "arms": 3, "optimism": 1e-9, "half_life": 0.001, '
          '"round": 9007199254740990, "outstanding": 7, "cumulative_delay": 1e31, "settled": 1e16, '
          '"total_loss": 0.5, "cost": 1e300, "z": [-1e300, 1e300, 0]}', 2);

CALL play(bandit_new(2, 'dada', skipping => false), 12);

CALL play(bandit_new(2, 'dada', patience => 0), 30);

CALL play(bandit_new(3, 'dada', patience => 100, step_scale => 0.1), 130);

CALL play(bandit_new(2, 'dada-ix', skipping => false), 12);

CALL play(bandit_new(12, 'dada-ix', step_scale => 3), 70);

CALL play(bandit_new(2, 'deda'), 20);

CALL play(bandit_new(5, 'deda', max_delay => 9), 20);

-- A large object can be exported by the next command, not yet by its own.
CREATE TABLE seed AS
SELECT 'text' || id AS name, lo_from_bytea(0, convert_to(state::text, 'UTF8')) AS content FROM corpus
UNION ALL
SELECT 'binary' || id, lo_from_bytea(0, bandit_state_send(state)) FROM corpus;

DO $$
BEGIN
    PERFORM lo_export(content, current_setting('fuzz.corpus') || '/' || name) FROM seed;
END
$$;

