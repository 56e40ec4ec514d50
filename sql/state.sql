-- The type bandit_state: its text and binary form, equality, storage, what it
-- refuses, and that no state stops being finite and normalised.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- Is the text form exact? Bytes are compared, for text that has lost digits is
-- equal to itself.
CREATE FUNCTION pg_temp.round_trips(state bandit_state) RETURNS boolean
LANGUAGE sql AS $$
    SELECT bandit_state_send(again) = bandit_state_send(state)
       AND again::text = state::text
       AND again = state AND NOT again <> state
       AND bandit_state_hash(again) = bandit_state_hash(state)
       AND bandit_state_hash_extended(again, 7) = bandit_state_hash_extended(state, 7)
       AND state::jsonb = state::text::jsonb
    FROM (SELECT state::text::bandit_state AS again OFFSET 0) x
$$;

-- Can the state go on? Its probabilities are numbers that sum to 1 (added as
-- numeric: with many arms, sum() has more rounding than they have), and its step
-- size is one, though it may be too small for a double.
CREATE FUNCTION pg_temp.is_sound(state bandit_state) RETURNS boolean
LANGUAGE sql AS $$
    SELECT count(*) = (state::jsonb ->> 'arms')::integer
       AND bool_and(p >= 0 AND p <= 1)
       AND abs(sum(p::numeric) - 1) < 1e-12
       AND bandit_step_size(state) >= 0 AND bandit_step_size(state) < 'infinity'
    FROM unnest(bandit_probabilities(state)) p
$$;

--
-- Every state that play can reach: after each draw and each feedback, of all
-- variants
--

-- Feedback of round s is due after round s + delay, in steps of 1 to 5 rounds;
-- of every eleventh round it never comes.
CREATE FUNCTION pg_temp.play(state bandit_state, rounds integer, delay integer DEFAULT NULL)
RETURNS SETOF bandit_state
LANGUAGE plpgsql AS $$
DECLARE
    drawn record;
    tickets bandit_ticket[];
BEGIN
    RETURN NEXT state;
    FOR t IN 1 .. rounds LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state, delay);
        state := drawn.state;
        tickets[t] := drawn.ticket;
        RETURN NEXT state;
        FOR s IN greatest(1, t - 8) .. t LOOP
            CONTINUE WHEN s + (s * s) % 9 <> t OR s % 11 = 0;
            state := bandit_learn(state, tickets[s], ((7 * s + 3 * tickets[s].arm) % 10) / 9.0);
            RETURN NEXT state;
        END LOOP;
    END LOOP;
END
$$;

CREATE TEMP TABLE variant (id, name, state, delay) AS
SELECT row_number() OVER (ORDER BY arms, n), name || ', ' || arms || ' arms', state, delay
FROM unnest(ARRAY[2, 3, 17]) arms,
     LATERAL (VALUES (1, 'dada', bandit_new(arms, 'dada', skipping => false), NULL::integer),
                     (2, 'dada skipping', bandit_new(arms, 'dada', patience => 0), NULL),
                     (3, 'dada skipping, patience 3, scale 1/3', bandit_new(arms, 'dada', patience => 3, step_scale => 1 / 3.0), NULL),
                     (4, 'dada-ix', bandit_new(arms, 'dada-ix', false), NULL),
                     (5, 'dada-ix skipping', bandit_new(arms, 'dada-ix'), NULL),
                     (6, 'deda, delays told', bandit_new(arms, 'deda'), 2),
                     (7, 'deda, maximum known', bandit_new(arms, 'deda', max_delay => 8), NULL)) v (n, name, state, delay);

SELECT setseed(0.1);
CREATE TEMP TABLE reached AS
SELECT v.id, v.name, played AS state
FROM (SELECT * FROM variant ORDER BY id) v, pg_temp.play(v.state, 60, v.delay) played;

SELECT name, count(*) AS states,
       bool_and(pg_temp.round_trips(state)) AS round_trips,
       bool_and(pg_temp.is_sound(state)) AS sound
FROM reached GROUP BY id, name ORDER BY id;

-- The settings of the session have no influence.
SELECT md5(string_agg(state::text || state::jsonb::text, '' ORDER BY ctid)) AS digest FROM reached \gset normal_
SET extra_float_digits = -15;
SELECT md5(string_agg(state::text || state::jsonb::text, '' ORDER BY ctid)) = :'normal_digest' AS same FROM reached;
SET extra_float_digits = 3;
SELECT md5(string_agg(state::text || state::jsonb::text, '' ORDER BY ctid)) = :'normal_digest' AS same FROM reached;
RESET extra_float_digits;

-- What the text form looks like
SELECT state FROM variant WHERE name LIKE '%, 2 arms' ORDER BY id;

--
-- Numbers that are hard to write: each must come back as the same double. The
-- binary form is 84 bytes, then z, each number as float8send() has it.
--

CREATE TEMP TABLE number (x float8);
INSERT INTO number
VALUES (0), (1), (0.1), (0.3), (0.30000000000000004), (4.35), (1 / 3.0::float8),
       -- the smallest double, the smallest normal one and those beside it
       ('4.9e-324'), ('1e-323'), ('2.225073858507201e-308'), ('2.2250738585072014e-308'), ('2.225073858507202e-308'),
       ('1e-300'), ('1.7976931348623157e308'), ('1.7976931348623155e308'),
       -- halfway cases, and powers of ten that are or are not exact
       ('9007199254740991'), ('9007199254740992'), ('9007199254740993'), ('9007199254740994'),
       ('1e15'), ('1e16'), ('1e17'), ('1e21'), ('1e22'), ('1e23'), ('9.999999999999999e22'), ('5e-324'), ('1e-5'), ('1e-4'),
       -- known to have broken conversions elsewhere
       ('2.2250738585072011e-308'), ('2.2250738585072012e-308'), ('6.631236846766476e-316'),
       ('9.5e-3'), ('5.0120298432056786e-13'), ('8.41e21'), ('2.0919495182368195e19'), ('7.038531e-26'),
       ('1.8446744073709552e19'), ('4.503599627370497e15'), ('9.109e-31'), ('3.5844466002796428e298');
-- powers of two, and the doubles beside them
INSERT INTO number
SELECT p * f FROM generate_series(-1074, 1023, 7) e, LATERAL (SELECT 2::float8 ^ e) power (p),
       unnest(ARRAY[1, 1 + 2::float8 ^ -52, 1 - 2::float8 ^ -53]) f WHERE p > 1e-300 OR f = 1;
-- 17 digits, and fewer, with exponents over the whole range
INSERT INTO number
SELECT (left(1000000000000 + n * 7919 || lpad((n * 104729 % 99991)::text, 5, '7'), 1 + n % 17)
        || 'e' || (n * 37 % 608) - 319)::float8
FROM generate_series(1, 1500) n;

SELECT count > 2000 AS many,
       pg_temp.round_trips(state) AS round_trips,
       substring(bandit_state_send(state) FROM 85) = sent AS same_bytes,
       state::text = text AS same_text
FROM (SELECT count(*), string_agg(float8send(x), '' ORDER BY x) AS sent,
             format('{"version": 1, "algorithm": "dada", "arms": %s, "skipping": false, "step_scale": 1, "round": 1, '
                    '"outstanding": 0, "cumulative_delay": 0, "z": [%s]}',
                    count(*), string_agg(x::text, ', ' ORDER BY x)) AS text
      FROM number) n,
     LATERAL CAST(text AS bandit_state) state;

--
-- States that take longer to reach than a test may run
--

CREATE TEMP TABLE written (id serial, name text, state text);
INSERT INTO written (name, state)
SELECT name, format('{"version": 1, "algorithm": "%s", "arms": %s, "skipping": false, "step_scale": %s, "round": %s, '
                    '"outstanding": %s, "cumulative_delay": %s, "z": [%s]}',
                    algorithm, cardinality(z), step_scale, round, outstanding, delay, array_to_string(z, ', '))
FROM (VALUES ('10^12 rounds, nothing outstanding', 'dada', '1', '1000000000000', '0', '1e+15', '{0,1000000000000}'::text[]),
             ('10^12 rounds, all outstanding', 'dada', '1', '1000000000000', '1000000000000', '4.999999999995e+23', '{0,0,0}'),
             ('10^12 rounds, the longest delays', 'dada-ix', '1', '1000000000000', '0', '5e+23', '{1e-300,0}'),
             ('more delay than a double counts exactly', 'dada-ix', '1', '1265754353208', '1265754353208', '8.010670413325012e+23', '{0,0}'),
             ('almost the last round', 'dada', '1', '9007199254738992', '9007199254738992', '4.0564819207285326e+31', '{0,0}'),
             ('tiny sums', 'dada', '1', '3', '1', '2', '{1e-300,5e-324,2.2250738585072014e-308}'),
             ('huge sums', 'dada', '1', '3', '1', '2', '{1.7976931348623157e+308,1.7976931348623157e+308,0,1e+308}'),
             ('huge sums, all equal', 'dada-ix', '1', '3', '1', '2', '{1.7976931348623157e+308,1.7976931348623157e+308}'),
             ('the smallest step scale', 'dada-ix', '5e-324', '3', '1', '2', '{0,1,1.7976931348623157e+308}'),
             ('the largest step scale', 'dada', '1.7976931348623157e+308', '3', '1', '2', '{0,5e-324,1,1e+308}'),
             ('the largest step scale', 'dada-ix', '1.7976931348623157e+308', '0', '0', '0', '{0,0}'))
     v (name, algorithm, step_scale, round, outstanding, delay, z);
INSERT INTO written (name, state)
SELECT name, format('{"version": 1, "algorithm": "deda", "arms": 2, "max_delay": %s, "round": %s, "outstanding": %s, '
                    '"cumulative_delay": %s, "longest_delay": %s, "lbck": %s, "z": %s, "m": %s, "z_tie": %s, "m_tie": %s}',
                    max_delay, round, outstanding, delay, longest, lbck, z, m, z_tie, m_tie)
FROM (VALUES ('deda, 10^12 rounds', 'null', '1000000000000', '1000000000000', '4.999999999995e+23', '1000000000000', '5e+23',
              '[1000000000000, 350000000000.1]', '[123456789012.34567, 0.1]', '[0, 0]', '[0, 0]'),
             ('deda, everything as large as can be', '2147483647', '9007199254740000', '1', '0', '9.007199254740992e+15',
              '1.7976931348623157e+308', '[1.7976931348623157e+308, 0]', '[1.7976931348623157e+308, 0]',
              '[1.7976931348623157e+308, 0]', '[1.7976931348623157e+308, 0]'),
             ('deda, everything tiny', '0', '5', '4', '7', '0', '5e-324',
              '[5e-324, 1e-300]', '[5e-324, 5e-324]', '[5e-324, 0]', '[0, 5e-324]'))
     v (name, max_delay, round, outstanding, delay, longest, lbck, z, m, z_tie, m_tie);
INSERT INTO written (name, state)
SELECT name, format('{"version": 1, "algorithm": "dada", "arms": 2, "skipping": true, "patience": %s, "step_scale": 1, '
                    '"round": %s, "open": %s, "cumulative_delay": %s, "z": [0, 1]}', patience, round, open, delay)
FROM (VALUES ('skipping, 10^12 rounds', '0', '1000000000000', '[999999999000, 999999999936, 1000000000000]', '1e+15'),
             ('skipping, 10^12 rounds', '100', '1000000000000', '[]', '0'),
             ('skipping, the most patient', '2147483647', '9007199254738992', '[9007199254735000, 9007199254738944]', '4000'))
     v (name, patience, round, open, delay);

-- 100 more rounds: the round counts on, and everything stays finite.
SELECT setseed(0.2);
SELECT w.name,
       w.state::bandit_state::text = w.state AS same_text,
       pg_temp.round_trips(w.state::bandit_state) AND bool_and(pg_temp.round_trips(p.state)) AS round_trips,
       pg_temp.is_sound(w.state::bandit_state) AND bool_and(pg_temp.is_sound(p.state)) AS sound,
       max((p.state::jsonb ->> 'round')::bigint) - (w.state::jsonb ->> 'round')::bigint AS rounds
FROM (SELECT * FROM written ORDER BY id) w,
     pg_temp.play(w.state::bandit_state, 100, CASE WHEN w.state LIKE '%"max_delay": null%' THEN 3 END) p (state)
GROUP BY w.id, w.name, w.state ORDER BY w.id;

-- After round 2^53 no bandit can count.
SELECT (bandit_draw(state)).ticket.round
FROM CAST('{"version": 1, "algorithm": "dada", "arms": 2, "skipping": false, "step_scale": 1, "round": 9007199254740991,
            "outstanding": 0, "cumulative_delay": 0, "z": [0, 0]}' AS bandit_state) state;
SELECT bandit_draw('{"version": 1, "algorithm": "dada", "arms": 2, "skipping": false, "step_scale": 1, "round": 9007199254740992,
                     "outstanding": 0, "cumulative_delay": 0, "z": [0, 0]}');

-- What is accepted can be used: a state on the edge of what is possible is
-- either refused, or it draws and stays a state.
CREATE FUNCTION pg_temp.refused_or_works(input text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    state bandit_state;
BEGIN
    BEGIN
        state := input;
    EXCEPTION WHEN invalid_text_representation THEN
        RETURN true;
    END;
    FOR i IN 1 .. 3 LOOP
        state := (bandit_draw(state)).state;
    END LOOP;
    RETURN pg_temp.is_sound(state) AND pg_temp.round_trips(state);
END
$$;

-- more delay than a double counts exactly
SELECT bool_and(pg_temp.refused_or_works(format(
           '{"version": 1, "algorithm": "dada", "arms": 2, "skipping": false, "step_scale": 1, "round": %s, '
           '"outstanding": %s, "cumulative_delay": %s, "z": [0, 0]}',
           round, round, round::float8 ^ 2 / 2 * factor))) AS refused_or_works
FROM unnest(ARRAY[368511957, 1265754353208, 8241040661497880]) round, unnest(ARRAY[1, 2]) factor;
-- an open round that should have been given up long ago
SELECT bool_and(pg_temp.refused_or_works(format(
           '{"version": 1, "algorithm": "dada", "arms": 2, "skipping": true, "patience": %s, "step_scale": 1, '
           '"round": %s, "open": [1], "cumulative_delay": %s, "z": [0, 0]}',
           patience, round, delay))) AS refused_or_works
FROM (VALUES (0, 200, 0), (100, 200, 0), (200, 200, 0), (0, 1000000, 0), (0, 1000000, 300000000000)) v (patience, round, delay);

--
-- The open rounds of a skipping bandit, across the words that they are kept in
--

-- Play, and keep the set of open rounds beside it. Returns in how many states
-- the two are the same, and the largest number of open rounds.
CREATE FUNCTION pg_temp.watch_open_rounds(patience integer, rounds integer,
                                          OUT states bigint, OUT same bigint, OUT most_open integer, OUT skipped bigint)
LANGUAGE plpgsql AS $$
DECLARE
    state bandit_state := bandit_new(2, 'dada', patience => patience);
    drawn record;
    tickets bandit_ticket[];
    open bigint[] := '{}';
    delay bigint := 0;                  -- the cumulative delay
    late bigint;
    s bigint;
BEGIN
    states := 0; same := 0; most_open := 0; skipped := 0;
    FOR t IN 1 .. rounds LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state);
        state := drawn.state;
        tickets[t] := drawn.ticket;
        delay := delay + cardinality(open);
        open := open || t::bigint;
        SELECT count(*) INTO late FROM unnest(open) o WHERE t - o > greatest(patience, sqrt(delay / ln(2)));
        open := open[late + 1 :];
        skipped := skipped + late;
        most_open := greatest(most_open, cardinality(open));
        states := states + 1;
        same := same + (ARRAY(SELECT jsonb_array_elements(state::jsonb -> 'open')::bigint) = open
                        AND (state::jsonb ->> 'cumulative_delay')::bigint = delay
                        AND pg_temp.round_trips(state))::integer;

        -- For a while nothing arrives; then much of it, out of order.
        FOR i IN 1 .. CASE WHEN t % 150 < 140 THEN (t % 20 = 0)::integer ELSE 12 END LOOP
            EXIT WHEN cardinality(open) = 0;
            s := open[1 + (t * 31 + i * 17) % cardinality(open)];
            state := bandit_learn(state, tickets[s], 0.5);
            open := array_remove(open, s);
            states := states + 1;
            same := same + (ARRAY(SELECT jsonb_array_elements(state::jsonb -> 'open')::bigint) = open
                            AND pg_temp.round_trips(state))::integer;
            -- it is not open any more
            same := same - (bandit_learn(state, tickets[s], 0.5) <> state)::integer;
        END LOOP;
    END LOOP;
END
$$;

SELECT setseed(0.3);
SELECT patience, states > 400 AS many, same = states AS same, most_open, skipped
FROM unnest(ARRAY[0, 1, 63, 64, 65, 1000]) patience, pg_temp.watch_open_rounds(patience, 320);

-- One and two open rounds on both sides of each boundary
SELECT count(*), bool_and(state::bandit_state::text = state) AS same_text,
       bool_and(pg_temp.round_trips(state::bandit_state)) AS round_trips
FROM unnest(ARRAY[1, 2, 62, 63, 64, 65, 126, 127, 128, 129, 191, 192, 193]) a,
     unnest(ARRAY[1, 2, 62, 63, 64, 65, 126, 127, 128, 129, 191, 192, 193]) b,
     unnest(ARRAY[193, 255, 256]) round,
     format('{"version": 1, "algorithm": "dada", "arms": 2, "skipping": true, "patience": 1000, "step_scale": 1, '
            '"round": %s, "open": [%s], "cumulative_delay": 300, "z": [0, 0]}',
            round, CASE WHEN a = b THEN a::text WHEN a < b THEN concat(a, ', ', b) END) state
WHERE a <= b;

--
-- Other ways to write the same state
--

SELECT name, text::bandit_state = state AS equal
FROM CAST('{"version": 1, "algorithm": "dada", "arms": 2, "skipping": true, "patience": 10, "step_scale": 0.5, "round": 20, "open": [19, 20], "cumulative_delay": 100, "z": [0.001, 1200]}' AS bandit_state) state,
     LATERAL (VALUES ('as jsonb', state::jsonb::text),
                     ('as json', jsonb_pretty(state::jsonb)),
                     ('other order and spaces', E'\t{"z":[0.001,1200],"open":[19,20],"arms":2,"round":20,"version":1,\n"patience":10,"skipping":true,"algorithm":"dada","step_scale":0.5,"cumulative_delay":100} '),
                     ('other numbers', '{"version": 1, "algorithm": "dada", "arms": 2, "skipping": true, "patience": 1e1, "step_scale": 5E-1, "round": 2e1, "open": [19, 0.2e2], "cumulative_delay": 1000e-1, "z": [1e-3, 1.200e+3]}'),
                     ('more digits than a double has', '{"version": 1, "algorithm": "dada", "arms": 2, "skipping": true, "patience": 10, "step_scale": 0.50000000000000000000001, "round": 20, "open": [19, 20], "cumulative_delay": 100, "z": [0.001000000000000000000001, 1199.9999999999999999999]}'),
                     ('escapes', '{"version": 1, "\u0061lgorithm": "d\u0061da", "arms": 2, "skipping": true, "patience": 10, "step_scale": 0.5, "round": 20, "open": [19, 20], "cumulative_delay": 100, "z": [0.001, 1200]}'),
                     ('the last of two wins, as in jsonb', '{"version": 1, "algorithm": "dada", "arms": 3, "arms": 2, "skipping": true, "patience": 10, "step_scale": 0.5, "round": 20, "open": [19, 20], "cumulative_delay": 100, "z": [0.001, 1200]}')
             ) v (name, text);

--
-- What is not a state
--

-- What the type says of a text: its complaint, or "accepted".
CREATE FUNCTION pg_temp.complaint(input text, OUT state text, OUT message text, OUT detail text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM input::bandit_state;
    state := 'accepted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
END
$$;

\pset format unaligned
\pset fieldsep ' | '
\pset footer off

SELECT input, c.state, c.message
FROM unnest(ARRAY['', ' ', 'dada', '{', '{"version": 1', '{"version": 1,}', '{version: 1}', '{"z": [NaN]}', '{"z": [Infinity]}',
                  '{"z": [+1]}', '{"z": [.5]}', '{"z": [0x10]}', '{} {}', '{"version": 1}"', '\x01']) input,
     pg_temp.complaint(input) c;
SELECT input, c.*
FROM unnest(ARRAY['null', 'true', '1', '"dada"', '[]', '[1]', '[{"version": 1}]', '{}', '{"version": {}}', '{"a": 1}']) input,
     pg_temp.complaint(input) c;

-- One of each kind of text form, to be spoilt
CREATE TEMP TABLE sample (id, kind, state) AS
VALUES (1, 'dada', jsonb '{"version": 1, "algorithm": "dada", "arms": 2, "skipping": false, "step_scale": 0.5, "round": 9, "outstanding": 2, "cumulative_delay": 9, "z": [1, 2]}'),
       (2, 'skipping', '{"version": 1, "algorithm": "dada-ix", "arms": 2, "skipping": true, "patience": 10, "step_scale": 0.5, "round": 9, "open": [4, 7, 9], "cumulative_delay": 36, "z": [1, 2]}'),
       (3, 'deda', '{"version": 1, "algorithm": "deda", "arms": 2, "max_delay": 3, "round": 9, "outstanding": 2, "cumulative_delay": 9, "longest_delay": 4, "lbck": 0.5, "z": [1, 2], "m": [0.5, 1.5], "z_tie": [0, 1], "m_tie": [0, 0.5]}');

SELECT kind, c.state FROM sample s, pg_temp.complaint(s.state::text) c ORDER BY id;

-- Without each of its keys
SELECT kind, key, c.*
FROM sample s, jsonb_object_keys(s.state) key, pg_temp.complaint((s.state - key)::text) c
ORDER BY id, key COLLATE "C";

-- Each key with values of other types: the complaints, and the values that are
-- good
SELECT kind, key, c.state, c.detail, string_agg(value, '  ' ORDER BY n) AS values
FROM sample s, jsonb_object_keys(s.state) key,
     unnest(ARRAY['null', 'true', '"1"', '"NaN"', '{}', '[]', '[1]', '[null, 1]', '[1, "2"]', '[[1, 2]]', '[1, [2]]', '[1, 2, 3]',
                  '-1', '0', '1', '1.0', '1.5', '-0.5', '1e400', '-1e400', '-1e-400', '99999999999999999999'])
         WITH ORDINALITY v (value, n),
     pg_temp.complaint((s.state || jsonb_build_object(key, value::jsonb))::text) c
GROUP BY id, kind, key, c.state, c.detail
ORDER BY id, key COLLATE "C", min(n);

-- Each limit, from both sides, and what does not go together
SELECT kind, change, c.state, c.detail
FROM (VALUES (1, 1, '{"arms": 1, "z": [1]}'),
             (2, 1, '{"arms": 65536}'),
             (3, 1, '{"arms": 3}'),
             (4, 1, '{"z": [1, 2, 3]}'),
             (5, 1, '{"z": [1, -2]}'),
             (6, 1, '{"z": [1, 1.7976931348623159e308]}'),
             (7, 1, '{"version": 0}'),
             (8, 1, '{"version": 2}'),
             (9, 1, '{"algorithm": "DADA"}'),
             (10, 1, '{"algorithm": "dada "}'),
             (11, 1, '{"algorithm": ""}'),
             (12, 1, '{"algorithm": "exp3"}'),
             (13, 1, '{"algorithm": "deda"}'),
             (14, 1, '{"step_scale": 0}'),
             (15, 1, '{"step_scale": 1e-400}'),
             (16, 1, '{"round": 9007199254740993}'),
             (17, 1, '{"round": 9223372036854775808}'),
             (18, 1, '{"outstanding": 10}'),
             (19, 1, '{"outstanding": 9}'),
             (20, 1, '{"cumulative_delay": 1000}'),
             (21, 1, '{"cumulative_delay": 36}'),
             (22, 1, '{"round": 0, "outstanding": 0, "cumulative_delay": 1}'),
             (23, 1, '{"skipping": true}'),
             (24, 1, '{"patience": 10}'),
             (25, 1, '{"max_delay": 10}'),
             (26, 1, '{"max_delay": null}'),
             (27, 1, '{"open": []}'),
             (28, 1, '{"lbck": 0}'),
             (29, 1, '{"": 0}'),
             (30, 1, '{"Z": [1, 2]}'),
             (31, 2, '{"patience": 2147483647}'),
             (32, 2, '{"patience": 2147483648}'),
             (33, 2, '{"skipping": false}'),
             (34, 2, '{"outstanding": 3}'),
             (35, 2, '{"open": [0, 4]}'),
             (36, 2, '{"open": [4, 4]}'),
             (37, 2, '{"open": [7, 4]}'),
             (38, 2, '{"open": [4, 10]}'),
             (39, 2, '{"open": [-4, 4]}'),
             (40, 2, '{"open": [4.5]}'),
             (41, 2, '{"open": [4, 9007199254740993]}'),
             (42, 2, '{"open": [4, 9007199254740992]}'),
             (43, 2, '{"open": [1e300]}'),
             (44, 2, '{"open": {"4": 7}}'),
             (45, 2, '{"round": 0, "open": [], "cumulative_delay": 0}'),
             (46, 2, '{"round": 0, "cumulative_delay": 0}'),
             (47, 3, '{"skipping": false}'),
             (48, 3, '{"skipping": true}'),
             (49, 3, '{"step_scale": 1}'),
             (50, 3, '{"patience": 0}'),
             (51, 3, '{"max_delay": 4}'),
             (52, 3, '{"max_delay": 5}'),
             (53, 3, '{"max_delay": 2147483648, "longest_delay": 2147483648}'),
             (54, 3, '{"longest_delay": 9007199254740992}'),
             (55, 3, '{"longest_delay": 9007199254740994}'),
             (56, 3, '{"longest_delay": 4.5}'),
             (57, 3, '{"lbck": -1}'),
             (58, 3, '{"m": [0.5]}'),
             (59, 3, '{"z_tie": [0, -1e-300]}'),
             (60, 3, '{"m_tie": [0, 1e309]}')) v (n, id, change)
JOIN sample s USING (id), pg_temp.complaint((s.state || change::jsonb)::text) c
ORDER BY n;

\pset format aligned
\pset fieldsep '|'
\pset footer on

--
-- Casts: out to text and jsonb, in from text; bytea neither way
--

SELECT castsource::regtype, casttarget::regtype, castcontext, castmethod
FROM pg_cast WHERE 'bandit_state'::regtype IN (castsource, casttarget) ORDER BY castmethod;

SELECT jsonb_typeof(state::jsonb) AS jsonb, left(state::text, 13) AS text, left(state::varchar, 13) AS varchar,
       state::text::bandit_state = state AS back, state::jsonb ->> 'algorithm' AS algorithm
FROM bandit_new(2, 'dada') state;
SELECT bandit_new(2, 'dada')::bytea;
SELECT '\x00'::bytea::bandit_state;
SELECT bandit_new(2, 'dada')::jsonb::bandit_state;

-- To text by assignment, to jsonb only when asked
CREATE TEMP TABLE target (t text, j jsonb);
INSERT INTO target (t) VALUES (bandit_new(2, 'dada'));
INSERT INTO target (j) VALUES (bandit_new(2, 'dada'));

--
-- Equality
--

SELECT count(*) > 10000 AS many,
       bool_and((a.state = b.state) = (bandit_state_send(a.state) = bandit_state_send(b.state))) AS eq,
       bool_and((a.state <> b.state) = (bandit_state_send(a.state) <> bandit_state_send(b.state))) AS ne,
       count(*) FILTER (WHERE a.state = b.state) >= count(DISTINCT a.ctid) AS some_equal
FROM reached a, reached b WHERE a.id IN (2, 7) AND b.id IN (2, 7);

-- Any difference counts: in each key, in the last bit.
SELECT kind, count(*), bool_or(a.state::text::bandit_state = (a.state || change)::text::bandit_state) AS any_equal
FROM sample a
JOIN (VALUES (1, jsonb '{"step_scale": 0.5000000000000001}'), (1, '{"round": 10}'), (1, '{"outstanding": 1}'),
             (1, '{"cumulative_delay": 10}'), (1, '{"z": [1.0000000000000002, 2]}'), (1, '{"z": [2, 1]}'), (1, '{"z": [1, 2, 0], "arms": 3}'),
             (1, '{"algorithm": "dada-ix"}'),
             (2, '{"patience": 11}'), (2, '{"open": [4, 8, 9]}'), (2, '{"open": [4, 7]}'), (2, '{"algorithm": "dada"}'),
             (3, '{"max_delay": 2}'), (3, '{"max_delay": null}'), (3, '{"longest_delay": 5}'), (3, '{"lbck": 0.5000000000000001}'),
             (3, '{"m": [0.5, 1.25]}'), (3, '{"z_tie": [0, 0.5]}'), (3, '{"m_tie": [0, 0.25]}')) c (id, change) USING (id)
GROUP BY id, kind ORDER BY id;

-- Hashing
CREATE TEMP TABLE twice AS SELECT state FROM reached UNION ALL SELECT state::text::bandit_state FROM reached;
SELECT count(DISTINCT bandit_state_send(state)) AS sent FROM reached \gset
SELECT count(*) = :sent AS "distinct" FROM (SELECT DISTINCT state FROM twice) d;
SELECT count(*) = :sent AS grouped, bool_and(n % 2 = 0) AS even FROM (SELECT count(*) AS n FROM twice GROUP BY state) g;
SELECT count(DISTINCT bandit_state_hash(state)) > 0.99 * :sent AS spread,
       count(DISTINCT bandit_state_hash_extended(state, 1)) = :sent AS spread_extended,
       bool_and(bandit_state_hash_extended(state, 0) <> bandit_state_hash_extended(state, 1)) AS seeded
FROM reached;
SET enable_nestloop = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT FROM reached a JOIN reached b ON a.state = b.state;
SELECT count(*) = (SELECT sum(n * n) FROM (SELECT count(*) AS n FROM reached GROUP BY bandit_state_send(state)) g) AS joined
FROM reached a JOIN reached b ON a.state = b.state;
RESET enable_nestloop;
RESET enable_mergejoin;
CREATE INDEX ON twice USING hash (state);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT FROM twice WHERE state = bandit_new(2, 'dada', patience => 0);
SELECT bool_and(n > 0 AND n % 2 = 0) AS found
FROM reached a, LATERAL (SELECT count(*) AS n FROM twice WHERE twice.state = a.state) b;
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE TEMP TABLE hashed (state bandit_state) PARTITION BY HASH (state);
CREATE TEMP TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TEMP TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT state FROM reached;
SELECT tableoid::regclass AS partition, count(*) > 1000 AS many FROM hashed GROUP BY 1 ORDER BY 1;

-- There is no order.
SELECT state FROM reached ORDER BY state;

--
-- Storage: plain, with a short header, compressed, out of line
--

CREATE TABLE stored (id integer PRIMARY KEY, state bandit_state);
INSERT INTO stored
SELECT n, CASE WHEN n = 1 THEN bandit_new(2, 'dada')
               WHEN n = 2 THEN bandit_new(100, 'dada')
               ELSE format('{"version": 1, "algorithm": "dada", "arms": 5000, "skipping": true, "patience": 5, "step_scale": 1, "round": 0, '
                           '"open": [], "cumulative_delay": 0, "z": [%s]}',
                           string_agg(CASE WHEN n = 3 THEN '0' ELSE (sqrt(i) / 100)::text END, ', '))::bandit_state END
FROM generate_series(1, 4) n, generate_series(1, 5000) i GROUP BY n;
CREATE TABLE stored_copy (LIKE stored);
ALTER TABLE stored_copy ALTER state SET STORAGE external;
INSERT INTO stored_copy SELECT * FROM stored;

SELECT id, pg_column_size(s.state) AS size, pg_column_compression(s.state) AS compression,
       pg_column_size(c.state) AS external_size, pg_column_compression(c.state) AS external_compression,
       length(bandit_state_send(s.state)) AS sent, s.state = c.state AS equal
FROM stored s JOIN stored_copy c USING (id) ORDER BY id;
SELECT bool_and(pg_relation_size(reltoastrelid) > 0) AS toasted FROM pg_class WHERE relname IN ('stored', 'stored_copy');

-- Play in place.
SELECT setseed(0.4);
DO $$
DECLARE
    drawn record;
BEGIN
    FOR i IN 1 .. 4 LOOP
        FOR t IN 1 .. 20 LOOP
            SELECT d.* INTO STRICT drawn FROM stored s, bandit_draw(s.state) d WHERE s.id = i;
            UPDATE stored SET state = drawn.state WHERE id = i;
            UPDATE stored SET state = bandit_learn(state, drawn.ticket, 0.5) WHERE id = i AND t % 2 = 0;
        END LOOP;
    END LOOP;
END
$$;
SELECT id, s.state::jsonb ->> 'round' AS round, s.state::jsonb ->> 'cumulative_delay' AS delay,
       jsonb_array_length(s.state::jsonb -> 'open') AS open,
       pg_temp.round_trips(s.state) AS round_trips, pg_temp.is_sound(s.state) AS sound,
       s.state <> c.state AND c.state::jsonb ->> 'round' = '0' AS copy_unchanged
FROM stored s JOIN stored_copy c USING (id) ORDER BY id;
DROP TABLE stored, stored_copy;

--
-- As many arms as there may be
--

SELECT setseed(0.5);
SELECT name, p.n AS states, pg_temp.is_sound(p.state) AS sound, pg_temp.round_trips(p.state) AS round_trips
FROM (VALUES (1, 'dada', bandit_new(65535, 'dada', skipping => false)),
             (2, 'dada skipping', bandit_new(65535, 'dada')),
             (3, 'dada-ix', bandit_new(65535, 'dada-ix', false)),
             (4, 'dada-ix skipping', bandit_new(65535, 'dada-ix', patience => 0)),
             (5, 'deda', bandit_new(65535, 'deda', max_delay => 3))) v (id, name, state),
     LATERAL (SELECT * FROM pg_temp.play(state, 10) WITH ORDINALITY p (state, n) ORDER BY n DESC LIMIT 1) p
ORDER BY id;

--
-- Losses all 0, all 1, tiny: nothing overflows, and nothing that is zero moves
--

CREATE FUNCTION pg_temp.learn_always(state bandit_state, loss float8, rounds integer) RETURNS bandit_state
LANGUAGE plpgsql AS $$
DECLARE
    drawn record;
BEGIN
    FOR t IN 1 .. rounds LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state);
        state := bandit_learn(drawn.state, drawn.ticket, loss);
    END LOOP;
    RETURN state;
END
$$;

SELECT setseed(0.6);
CREATE TEMP TABLE extreme AS
SELECT v.n, name, loss, pg_temp.learn_always(state, loss, 1000) AS state
FROM (VALUES (1, 'dada', bandit_new(3, 'dada', skipping => false)),
             (2, 'dada skipping', bandit_new(3, 'dada')),
             (3, 'dada-ix', bandit_new(3, 'dada-ix', false)),
             (4, 'deda', bandit_new(3, 'deda', max_delay => 0)),
             (5, 'dada, scale 1e300', bandit_new(3, 'dada', step_scale => 1e300)),
             (6, 'dada-ix, scale 1e300', bandit_new(3, 'dada-ix', step_scale => 1e300)),
             (7, 'dada, scale 1e-300', bandit_new(3, 'dada', step_scale => 1e-300))) v (n, name, state),
     unnest(ARRAY[0, '-0', 1, 1e-300, 4.9e-324]::float8[]) loss;
-- "least" and "most": the smallest and largest sum of loss estimates
SELECT name, loss, pg_temp.is_sound(state) AS sound, pg_temp.round_trips(state) AS round_trips,
       least = 0 AS least_is_0, most = 0 AS most_is_0, most < 1e33 AS bounded
FROM extreme, LATERAL (SELECT min(z::float8) AS least, max(z::float8) AS most FROM jsonb_array_elements(state::jsonb -> 'z') z) z
ORDER BY n, loss DESC, loss::text;

--
-- Probabilities that underflow
--

-- Arms 1 and 4 have probability zero (their sums of losses are larger by far),
-- arm 3 hardly more than that: only arm 2 is ever drawn.
SELECT setseed(0.7);
WITH bandit AS (
    SELECT n, state::bandit_state
    FROM (VALUES (1, '[1e300, 0, 600, 1.7976931348623157e308]'), (2, '[1e300, 1e6, 1000300, 1e308]'), (3, '[800, 0, 300, 1e10]'))
         v (n, z),
         format('{"version": 1, "algorithm": "dada", "arms": 4, "skipping": false, "step_scale": 10, "round": 10, '
                '"outstanding": 0, "cumulative_delay": 0, "z": %s}', z) state)
SELECT n, p[1] = 0 AND p[4] = 0 AS zero, p[2] = 1 AS one, p[3] < 1e-200 AS tiny, p[3] > 0 AS not_zero, arms AS drawn
FROM bandit, bandit_probabilities(state) p, LATERAL (SELECT array_agg(DISTINCT (d.ticket).arm) AS arms
                      FROM generate_series(1, 20000), bandit_draw(CASE WHEN generate_series > 0 THEN state END) d) d
ORDER BY n;

-- Tickets with probabilities that only a forger can have: refused if the
-- estimate might overflow; otherwise no sum becomes infinite, however often.
CREATE FUNCTION pg_temp.forged(state bandit_state, probability float8, gamma float8, times integer,
                               OUT result text, OUT sound boolean, OUT log_largest integer)
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. times LOOP
        state := bandit_learn(state, ROW(1, 1, probability, gamma, 0, 0)::bandit_ticket, 1);
    END LOOP;
    result := 'learned';
    sound := pg_temp.is_sound(state) AND pg_temp.round_trips(state) AND pg_temp.is_sound((bandit_draw(state)).state);
    log_largest := (SELECT log(max(z::float8)) FROM jsonb_array_elements(state::jsonb -> 'z') z);
EXCEPTION WHEN OTHERS THEN
    result := SQLSTATE || ' ' || SQLERRM;
END
$$;
SELECT probability, gamma, algorithm, f.*
FROM (VALUES ('5e-324'::float8, 0::float8), ('5.562684646268003e-309', 0), ('5.562684646268010e-309', 0), (2.3e-308, 0), (1e-300, 0),
             (5e-324, 5e-324), (5e-324, 1e-300), (5e-324, 1.7976931348623157e308)) v (probability, gamma),
     unnest(ARRAY['dada', 'dada-ix', 'deda']) algorithm,
     format('{"version": 1, "algorithm": "%s", "arms": 2, %s, "round": 1000, "outstanding": 1000, "cumulative_delay": 0, "z": [0, 0]%s}',
            algorithm,
            CASE algorithm WHEN 'deda' THEN '"max_delay": 0' ELSE '"skipping": false, "step_scale": 1' END,
            CASE algorithm WHEN 'deda' THEN ', "longest_delay": 0, "lbck": 0, "m": [0, 0], "z_tie": [0, 0], "m_tie": [0, 0]' END) state,
     pg_temp.forged(state::bandit_state, probability, gamma, 1000) f
WHERE algorithm <> 'dada' OR gamma = 0;

--
-- The objects of the extension
--

CREATE TEMP VIEW member AS
SELECT d.classid, d.objid, i.type, i.identity, ds.description
FROM pg_depend d
CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) i
LEFT JOIN pg_description ds ON (ds.classoid, ds.objoid, ds.objsubid) = (d.classid, d.objid, 0)
WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dexp3')
  -- Array types and the row types of tables have no comment of their own.
  AND i.identity NOT LIKE '%[]'
  AND NOT EXISTS (SELECT FROM pg_class c WHERE c.reltype = d.objid AND d.classid = 'pg_type'::regclass AND c.relkind <> 'c');

-- Objects, and columns of types and tables, without a COMMENT: none
SELECT type, identity FROM member WHERE coalesce(description, '') = ''
UNION ALL
SELECT 'column', a.attrelid::regclass || '.' || a.attname
FROM member m
JOIN pg_class c ON c.oid = m.objid AND m.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                OR c.reltype = m.objid AND m.classid = 'pg_type'::regclass AND c.relkind = 'c'
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE col_description(a.attrelid, a.attnum) IS NULL;

SELECT count(*) >= 23 AS many FROM member;

-- Labels of the functions that know no tables: what draws is volatile; the rest
-- depends on nothing but its arguments. Where a null would silently lose
-- something, the function is not strict.
SELECT p.oid::regprocedure AS function, p.provolatile AS volatile, p.proisstrict AS strict, p.proparallel AS parallel,
       p.proleakproof AS leakproof, p.prosecdef AS definer
FROM member m JOIN pg_proc p ON p.oid = m.objid AND m.classid = 'pg_proc'::regclass
WHERE p.proparallel <> 'u' AND p.pronamespace <> 'dexp3'::regnamespace
ORDER BY p.oid::regprocedure::text COLLATE "C";

SELECT typlen, typbyval, typalign, typstorage FROM pg_type WHERE oid = 'bandit_state'::regtype;
