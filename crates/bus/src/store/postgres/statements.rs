//! Everything that is said to the server, prepared once for each connection.

use tokio_postgres::{Client, Error, Statement};

use super::schema::in_schema;

/// The statements of one connection.
pub(super) struct Statements {
    pub raise_epoch: Statement,
    pub position: Statement,
    pub state: Statement,
    pub states: Statement,
    pub scan: Statement,
    pub commit: Statement,
    pub outbox: Statement,
    pub published: Statement,
    pub abandoned: Statement,
    pub consumed: Statement,
    pub tidy_senders: Statement,
    pub tidy_outside: Statement,
    pub tidy_buckets: Statement,
    pub document: Statement,
    pub put_document: Statement,
    pub documents: Statement,
}

impl Statements {
    pub async fn prepare(client: &Client, schema: &str) -> Result<Self, Error> {
        Ok(Self {
            raise_epoch: one(client, schema, RAISE_EPOCH).await?,
            position: one(client, schema, POSITION).await?,
            state: one(client, schema, STATE).await?,
            states: one(client, schema, STATES).await?,
            scan: one(client, schema, SCAN).await?,
            commit: one(client, schema, COMMIT).await?,
            outbox: one(client, schema, OUTBOX).await?,
            published: one(client, schema, PUBLISHED).await?,
            abandoned: one(client, schema, ABANDONED).await?,
            consumed: one(client, schema, CONSUMED).await?,
            tidy_senders: one(client, schema, TIDY_SENDERS).await?,
            tidy_outside: one(client, schema, TIDY_OUTSIDE).await?,
            tidy_buckets: one(client, schema, TIDY_BUCKETS).await?,
            document: one(client, schema, DOCUMENT).await?,
            put_document: one(client, schema, PUT_DOCUMENT).await?,
            documents: one(client, schema, DOCUMENTS).await?,
        })
    }
}

async fn one(client: &Client, schema: &str, sql: &str) -> Result<Statement, Error> {
    client.prepare(&in_schema(sql, schema)).await
}

const POSITION: &str = "SELECT epoch, number FROM SCHEMA.buckets WHERE bucket = $1";

const STATE: &str = "SELECT value FROM SCHEMA.state WHERE bucket = $1 AND key = $2";

const STATES: &str = "SELECT key, value FROM SCHEMA.state WHERE bucket = $1 AND key = ANY($2)";

const PUBLISHED: &str = "SELECT SCHEMA.mark_published($1, $2, $3)";

const DOCUMENT: &str = "SELECT revision, body FROM SCHEMA.documents WHERE name = $1";

const RAISE_EPOCH: &str = "
    INSERT INTO SCHEMA.buckets AS b (bucket, epoch, number, token) VALUES ($1, 1, 0, 0)
    ON CONFLICT (bucket) DO UPDATE
        SET epoch = b.epoch + 1, number = 0, token = 0, touched = now()
    RETURNING b.epoch";

const SCAN: &str = "
    SELECT key, value FROM SCHEMA.state WHERE bucket = $1 AND key >= $2 ORDER BY key LIMIT $3";

const COMMIT: &str = "
    SELECT outcome, current_epoch
    FROM SCHEMA.commit_turns($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

const OUTBOX: &str = "
    SELECT epoch, number, entries FROM SCHEMA.outbox
    WHERE bucket = $1 AND (epoch, number) > ($2, $3) ORDER BY epoch, number LIMIT $4";

/// Whoever finds something is the only one to find it for a while.
const ABANDONED: &str = "
    WITH old AS (
        SELECT DISTINCT bucket FROM SCHEMA.outbox
        WHERE since < now() - $1::float8 * interval '1 second' LIMIT 16
    ), claimed AS (
        UPDATE SCHEMA.outbox o SET since = now() FROM old
        WHERE o.bucket = old.bucket AND o.since < now() - $1::float8 * interval '1 second'
        RETURNING o.bucket
    )
    SELECT DISTINCT bucket FROM claimed";

const CONSUMED: &str = "
    SELECT u.place FROM unnest($2::bigint[], $3::text[], $4::bigint[]) AS u (place, sender, number)
    JOIN SCHEMA.consumed c ON c.queue = $1 AND c.sender = u.sender AND c.numbers @> u.number
    UNION ALL
    SELECT u.place FROM unnest($5::bigint[], $6::bytea[]) AS u (place, id)
    JOIN SCHEMA.consumed_outside c ON c.queue = $1 AND c.id = sha256(u.id)";

const TIDY_SENDERS: &str = "
    DELETE FROM SCHEMA.consumed WHERE seen < now() - $1::float8 * interval '1 second'";

const TIDY_OUTSIDE: &str = "
    DELETE FROM SCHEMA.consumed_outside WHERE (queue, id) IN (
        SELECT queue, id FROM SCHEMA.consumed_outside
        WHERE seen < now() - $1::float8 * interval '1 second' LIMIT 10000
    )";

/// Only of commits without an owner: nobody raises the epoch of such a bucket again.
const TIDY_BUCKETS: &str = "
    DELETE FROM SCHEMA.buckets b
    WHERE starts_with(b.bucket, $2) AND b.touched < now() - $1::float8 * interval '1 second'
        AND NOT EXISTS (SELECT FROM SCHEMA.outbox o WHERE o.bucket = b.bucket)";

const PUT_DOCUMENT: &str = "
    SELECT is_stored, current_revision FROM SCHEMA.put_document($1, $2, $3, $4)";

const DOCUMENTS: &str = "
    SELECT name, revision, body FROM SCHEMA.documents
    WHERE name >= $1 AND starts_with(name, $1) AND name > $2 ORDER BY name LIMIT $3";
