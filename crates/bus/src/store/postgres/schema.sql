-- Version 1. The word SCHEMA stands for the name that the address gives.

-- The owners of buckets, one after another, and their last commits.
CREATE TABLE SCHEMA.buckets (
    bucket text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    token bigint NOT NULL,
    touched timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

CREATE TABLE SCHEMA.state (
    bucket text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (bucket, key)
);

-- What was committed and is not known to be published: a row for each commit.
CREATE TABLE SCHEMA.outbox (
    bucket text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    entries bytea NOT NULL,
    PRIMARY KEY (bucket, epoch, number)
);
CREATE INDEX outbox_since ON SCHEMA.outbox (since);

-- For each queue and sender the numbers that were consumed: up to the high-water mark, without
-- the gaps.
CREATE TABLE SCHEMA.consumed (
    queue text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    numbers int8multirange NOT NULL,
    seen timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, sender)
) WITH (fillfactor = 50);

-- Ids of outside clients, of which nothing is known but the id: a row for each.
CREATE TABLE SCHEMA.consumed_outside (
    queue text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    seen timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, id)
);
CREATE INDEX consumed_outside_seen ON SCHEMA.consumed_outside (seen);

-- A deleted document keeps its row, for its revision.
CREATE TABLE SCHEMA.documents (
    name text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL,
    token bigint NOT NULL,
    body bytea
);

-- A whole commit in one round trip. The outcomes: 0 done, 1 another epoch, 2 somebody else commits in
-- this epoch. Input that was consumed before ends it with the error HW001.
CREATE FUNCTION SCHEMA.commit_turns(
    of_bucket text,
    of_epoch bigint,
    of_number bigint,
    of_token bigint,
    set_keys bytea[],
    set_values bytea[],
    removed_keys bytea[],
    new_entries bytea,
    published_number bigint,
    queues text[],
    senders text[],
    new_numbers text[],
    outside_queues text[],
    outside_ids bytea[],
    ranges_max integer,
    OUT outcome integer,
    OUT current_epoch bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    last_number bigint;
    last_token bigint;
    touched_rows bigint;
    ranges_most bigint;
BEGIN
    -- The lock on this row makes the commits of a bucket and the raising of its epoch wait for each
    -- other.
    SELECT b.epoch, b.number, b.token INTO current_epoch, last_number, last_token
        FROM SCHEMA.buckets b WHERE b.bucket = of_bucket FOR UPDATE;
    IF NOT FOUND THEN
        current_epoch := 0;
        outcome := 1;
        RETURN;
    END IF;
    IF current_epoch <> of_epoch THEN
        outcome := 1;
        RETURN;
    END IF;
    IF last_number = of_number AND last_token = of_token THEN
        -- Its answer was lost, and it is repeated.
        outcome := 0;
        RETURN;
    END IF;
    IF last_number <> of_number - 1 THEN
        outcome := 2;
        RETURN;
    END IF;
    UPDATE SCHEMA.buckets b SET number = of_number, token = of_token, touched = now()
        WHERE b.bucket = of_bucket;

    -- In order, so that two commits which share senders wait for each other and never in a ring.
    IF cardinality(queues) > 0 THEN
        WITH merged AS (
            INSERT INTO SCHEMA.consumed AS c (queue, sender, numbers)
                SELECT u.queue, u.sender, u.numbers::int8multirange
                FROM unnest(queues, senders, new_numbers) AS u (queue, sender, numbers)
                ORDER BY u.queue COLLATE "C", u.sender COLLATE "C"
            ON CONFLICT (queue, sender) DO UPDATE
                SET numbers = c.numbers + EXCLUDED.numbers, seen = now()
                WHERE NOT c.numbers && EXCLUDED.numbers
            RETURNING (SELECT count(*) FROM unnest(c.numbers)) AS ranges
        )
        SELECT count(*), max(m.ranges) INTO touched_rows, ranges_most FROM merged m;
        IF touched_rows <> cardinality(queues) THEN
            RAISE EXCEPTION 'consumed before' USING ERRCODE = 'HW001';
        END IF;
        -- Too many gaps: the oldest numbers are forgotten, so that their repeats would pass. Never
        -- the other way round: a message that was not consumed is not dropped.
        IF ranges_most > ranges_max THEN
            UPDATE SCHEMA.consumed c
                SET numbers = (
                    SELECT range_agg(kept.part) FROM (
                        SELECT p.part FROM unnest(c.numbers) AS p (part)
                        ORDER BY lower(p.part) DESC LIMIT ranges_max / 2
                    ) kept
                )
                FROM unnest(queues, senders) AS u (queue, sender)
                WHERE c.queue = u.queue AND c.sender = u.sender
                    AND (SELECT count(*) FROM unnest(c.numbers)) > ranges_max;
        END IF;
    END IF;
    IF cardinality(outside_queues) > 0 THEN
        WITH added AS (
            INSERT INTO SCHEMA.consumed_outside (queue, id)
                SELECT u.queue, sha256(u.id)
                FROM unnest(outside_queues, outside_ids) AS u (queue, id)
                ORDER BY u.queue COLLATE "C", sha256(u.id)
            ON CONFLICT DO NOTHING
            RETURNING 1
        )
        SELECT count(*) INTO touched_rows FROM added;
        IF touched_rows <> cardinality(outside_queues) THEN
            RAISE EXCEPTION 'consumed before' USING ERRCODE = 'HW001';
        END IF;
    END IF;

    IF cardinality(removed_keys) > 0 THEN
        DELETE FROM SCHEMA.state s WHERE s.bucket = of_bucket AND s.key = ANY (removed_keys);
    END IF;
    IF cardinality(set_keys) > 0 THEN
        INSERT INTO SCHEMA.state (bucket, key, value)
            SELECT of_bucket, u.key, u.value FROM unnest(set_keys, set_values) AS u (key, value)
        ON CONFLICT (bucket, key) DO UPDATE SET value = EXCLUDED.value;
    END IF;
    IF published_number > 0 THEN
        DELETE FROM SCHEMA.outbox o
            WHERE o.bucket = of_bucket AND (o.epoch, o.number) <= (of_epoch, published_number);
    END IF;
    IF new_entries IS NOT NULL THEN
        INSERT INTO SCHEMA.outbox (bucket, epoch, number, entries)
            VALUES (of_bucket, of_epoch, of_number, new_entries);
    END IF;
    outcome := 0;
END
$body$;

-- It need not wait for the disk: what a crash brings back is published again under the same ids.
CREATE FUNCTION SCHEMA.mark_published(of_bucket text, of_epoch bigint, of_number bigint)
RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM SCHEMA.outbox o
        WHERE o.bucket = of_bucket AND (o.epoch, o.number) <= (of_epoch, of_number);
END
$body$;

-- Compare-and-swap. The token tells a change whose answer was lost, and that is repeated, from
-- somebody else's.
CREATE FUNCTION SCHEMA.put_document(
    of_name text,
    expected bigint,
    new_body bytea,
    new_token bigint,
    OUT is_stored boolean,
    OUT current_revision bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    current_token bigint;
BEGIN
    IF expected = 0 THEN
        INSERT INTO SCHEMA.documents AS d (name, revision, token, body)
            VALUES (of_name, 1, new_token, new_body)
        ON CONFLICT DO NOTHING RETURNING d.revision INTO current_revision;
    ELSE
        UPDATE SCHEMA.documents d
            SET revision = d.revision + 1, token = new_token, body = new_body
            WHERE d.name = of_name AND d.revision = expected
            RETURNING d.revision INTO current_revision;
    END IF;
    is_stored := current_revision IS NOT NULL;
    IF NOT is_stored THEN
        SELECT d.revision, d.token INTO current_revision, current_token
            FROM SCHEMA.documents d WHERE d.name = of_name;
        current_revision := coalesce(current_revision, 0);
        is_stored := current_revision = expected + 1
            AND coalesce(current_token = new_token, false);
    END IF;
END
$body$;
