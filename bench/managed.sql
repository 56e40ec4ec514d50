-- What managed.py and steady.py need in their database: the extension, the floors, and
-- the peers.

SET client_min_messages = warning;
CREATE EXTENSION dexp3;
CREATE SCHEMA bench;

CREATE FUNCTION bench.arms(n integer) RETURNS text[]
    LANGUAGE sql
    RETURN (SELECT array_agg('arm ' || i) FROM generate_series(1, n) AS i);

--
-- The floors: tables like the real ones, with their indexes
--

CREATE TABLE bench.decision (LIKE dexp3.decision_rows INCLUDING ALL EXCLUDING IDENTITY);
CREATE TABLE bench.feedback (LIKE dexp3.feedback_rows INCLUDING ALL EXCLUDING IDENTITY);
CREATE SEQUENCE bench.decision_id;

-- Write the statement that inserts such a row as the given one.  What is new in
-- every row is computed by the given expressions, the rest is constant.
CREATE FUNCTION bench.insert_statement(relation regclass, example jsonb,
                                       expressions jsonb, source text DEFAULT '')
RETURNS text
    LANGUAGE sql
    RETURN (SELECT format('INSERT INTO %s (%s) SELECT %s %s', relation,
                          string_agg(quote_ident(key), ', '),
                          string_agg(coalesce(expressions ->> key, quote_nullable(value)), ', '),
                          source)
                FROM jsonb_each_text(example));

-- One decision and one feedback, as examples.
SELECT bandit_create('example', bench.arms(10));
SELECT bandit_feedback(decision_id, 0.5) FROM bandit_choose('example');

-- The bandit is an expression, or that of the example.
CREATE FUNCTION bench.insert_decision(bandit_id text DEFAULT NULL) RETURNS text
    LANGUAGE sql
    RETURN (SELECT bench.insert_statement('bench.decision', to_jsonb(d),
                       '{"decision_id": "nextval(''bench.decision_id'')",
                         "decided_at": "now()",
                         "xact": "pg_current_xact_id()"}' ||
                       jsonb_strip_nulls(jsonb_build_object('bandit_id', insert_decision.bandit_id)))
                FROM dexp3.decision AS d LIMIT 1);

-- The source provides the decision, as "d".  The row differs from the example by the
-- given columns.
CREATE FUNCTION bench.insert_feedback(source text, columns jsonb DEFAULT '{}') RETURNS text
    LANGUAGE sql
    RETURN (SELECT bench.insert_statement('bench.feedback', to_jsonb(f) || columns,
                       '{"decision_id": "d.decision_id",
                         "bandit_id": "d.bandit_id",
                         "received_at": "now()",
                         "xact": "pg_current_xact_id()"}',
                       source)
                FROM dexp3.feedback AS f LIMIT 1);

--
-- The application's table, whose trigger gives feedback; and the floor's, which has none
--

CREATE TABLE bench.purchase (
    decision_id bigint PRIMARY KEY,
    loss float8 NOT NULL,
    purchased_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE bench.purchase_floor (LIKE bench.purchase INCLUDING ALL);
CREATE TRIGGER purchase_feedback AFTER INSERT ON bench.purchase FOR EACH ROW
    EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');

--
-- The peers: "dada" without skipping, with one state row a bandit.  This one is in
-- PL/pgSQL; app.py has the other one, and uses the same tables.
--

CREATE SCHEMA peer;

-- Half of each page is left free for new versions of its rows, so that indexes
-- need not be touched.
CREATE TABLE peer.bandit (
    name text PRIMARY KEY,
    arms text[] NOT NULL,
    round bigint NOT NULL DEFAULT 0,
    outstanding bigint NOT NULL DEFAULT 0,
    cumulative_delay float8 NOT NULL DEFAULT 0,
    z float8[] NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE peer.decision (
    decision_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bandit text NOT NULL,
    round bigint NOT NULL,
    arm integer NOT NULL,
    probability float8 NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE peer.feedback (
    decision_id bigint PRIMARY KEY,
    loss float8 NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION peer.choose(bandit text, OUT decision_id bigint, OUT arm text,
                            OUT probability float8)
    LANGUAGE plpgsql
AS $$
DECLARE
    b peer.bandit;
    least float8;
    eta float8;
    weight float8;
    weights float8[];
    total float8 := 0;
    target float8;
    drawn integer := 0;
BEGIN
    SELECT * INTO STRICT b FROM peer.bandit WHERE name = choose.bandit FOR UPDATE;

    b.round := b.round + 1;
    b.cumulative_delay := b.cumulative_delay + b.outstanding;
    eta := sqrt(ln(cardinality(b.z)) / (b.round * cardinality(b.z) + b.cumulative_delay));
    least := (SELECT min(z) FROM unnest(b.z) AS z);
    FOR i IN 1 .. cardinality(b.z) LOOP
        weight := exp(greatest(-eta * (b.z[i] - least), -700));
        weights[i] := weight;
        total := total + weight;
    END LOOP;

    target := random() * total;
    LOOP
        drawn := drawn + 1;
        target := target - weights[drawn];
        EXIT WHEN target < 0 OR drawn = cardinality(b.z);
    END LOOP;
    arm := b.arms[drawn];
    probability := weights[drawn] / total;

    UPDATE peer.bandit
        SET round = b.round,
            outstanding = b.outstanding + 1,
            cumulative_delay = b.cumulative_delay
        WHERE name = choose.bandit;
    INSERT INTO peer.decision AS d (bandit, round, arm, probability)
        VALUES (choose.bandit, b.round, drawn, choose.probability)
        RETURNING d.decision_id INTO choose.decision_id;
END;
$$;

CREATE FUNCTION peer.feedback(decision_id bigint, loss float8) RETURNS text
    LANGUAGE plpgsql
AS $$
DECLARE
    d peer.decision;
BEGIN
    SELECT * INTO STRICT d FROM peer.decision AS e WHERE e.decision_id = feedback.decision_id;
    INSERT INTO peer.feedback (decision_id, loss)
        VALUES (feedback.decision_id, feedback.loss)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'duplicate';
    END IF;
    UPDATE peer.bandit
        SET outstanding = outstanding - 1,
            z[d.arm] = z[d.arm] + feedback.loss / d.probability
        WHERE name = d.bandit;
    RETURN 'applied';
END;
$$;

CREATE FUNCTION peer.purchase_feedback() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM peer.feedback(NEW.decision_id, NEW.loss);
    RETURN NULL;
END;
$$;

CREATE TABLE peer.purchase (LIKE bench.purchase INCLUDING ALL);
CREATE TRIGGER purchase_feedback AFTER INSERT ON peer.purchase FOR EACH ROW
    EXECUTE FUNCTION peer.purchase_feedback();

--
-- The bandits: one each, and one of many each
--

INSERT INTO peer.bandit (name, arms, z)
    SELECT name, bench.arms(10), array_fill(0::float8, ARRAY[10])
        FROM unnest(ARRAY['peer', 'app']) AS name
    UNION ALL
    SELECT 'one of many ' || n, bench.arms(10), array_fill(0::float8, ARRAY[10])
        FROM generate_series(1, 1000) AS n;

SELECT bandit_create('app', bench.arms(10)),
       bandit_create('patient', bench.arms(10));
SELECT bandit_create('one of many ' || n, bench.arms(10)),
       bandit_create('one of many patient ' || n, bench.arms(10))
    FROM generate_series(1, 1000) AS n;

--
-- Playing inside the server
--

-- Choose for each of the many patient bandits by turns, and return the first decision.
CREATE FUNCTION bench.choose_by_turns(choices integer) RETURNS bigint
    LANGUAGE sql
BEGIN ATOMIC
    SELECT min((bandit_choose_each('one of many patient ' || 1 + n % 1000, n)).decision_id)
        FROM generate_series(1, choices) AS n;
END;

-- Fill the log of a bandit with so many decisions, 10,000 in a transaction, and settle
-- them if a loss is given.
CREATE PROCEDURE bench.fill(bandit text, decisions integer, loss float8 DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
DECLARE
    n integer;
BEGIN
    WHILE decisions > 0 LOOP
        n := least(decisions, 10000);
        IF loss IS NULL THEN
            PERFORM FROM bandit_choose_many(bandit, n);
        ELSE
            PERFORM bandit_feedback(c.decision_id, loss) FROM bandit_choose_many(bandit, n) AS c;
        END IF;
        COMMIT;
        decisions := decisions - n;
    END LOOP;
END;
$$;

-- Play rounds of the bandit, each with its feedback, 100 in a transaction.
CREATE PROCEDURE bench.play(bandit text, rounds integer)
    LANGUAGE plpgsql
AS $$
DECLARE
    decision bigint;
BEGIN
    FOR i IN 1 .. rounds LOOP
        SELECT decision_id INTO decision FROM bandit_choose(bandit);
        PERFORM bandit_feedback(decision, (i % 2)::float8);
        IF i % 100 = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END;
$$;
