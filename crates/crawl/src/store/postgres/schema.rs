//! The tables, and how those of older versions become those of this one.

use tokio_postgres::{Client, Error, Transaction};

use super::super::StoreError;
use super::{Connection, within};

/// What makes each version from the one before. The first makes it from nothing. What stands here is never changed, as there
/// are stores that were made by it: another version is another entry.
const STEPS: &[&str] = &[r#"
    CREATE TABLE crawl_schema (version bigint NOT NULL);
    INSERT INTO crawl_schema VALUES (0);
    CREATE TABLE crawl_pages (
        key bytea PRIMARY KEY,
        id bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
        url text COLLATE "C" NOT NULL,
        final_url text COLLATE "C",
        host text COLLATE "C" NOT NULL,
        depth bigint NOT NULL,
        from_url text COLLATE "C",
        status bigint NOT NULL,
        mime text COLLATE "C",
        charset text,
        size bigint NOT NULL,
        fetched_at bigint NOT NULL,
        took_ms bigint NOT NULL,
        node text NOT NULL,
        title text,
        language text,
        description text,
        hash text,
        simhash text,
        headers json,
        fields json,
        fetches bigint NOT NULL,
        text text,
        body bytea
    );
    -- It is packed already.
    ALTER TABLE crawl_pages ALTER COLUMN body SET STORAGE EXTERNAL;
    CREATE INDEX crawl_pages_by_time ON crawl_pages (fetched_at, id);
    CREATE INDEX crawl_pages_by_host ON crawl_pages (host, fetched_at) INCLUDE (size);
    CREATE INDEX crawl_pages_by_end ON crawl_pages (md5(final_url)) WHERE final_url IS NOT NULL;
    CREATE TABLE crawl_refusals (
        key bytea PRIMARY KEY,
        id bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
        url text COLLATE "C" NOT NULL,
        host text COLLATE "C" NOT NULL,
        stage text,
        rule text NOT NULL,
        reason text NOT NULL,
        from_url text COLLATE "C",
        depth bigint NOT NULL,
        at bigint NOT NULL,
        node text NOT NULL
    );
"#];

/// Texts are indexed up to here: what the index keeps of one page has to stay below one megabyte.
const INDEXED_CHARACTERS_MAX: usize = 200_000;

/// Nodes that start at once wait for each other with this.
const LOCK: i64 = 0x4869_7665_6372_776c;

/// Brings the tables to the latest version, and makes the full-text index if it is wanted.
pub(super) async fn bring_up(
    connection: &mut Connection,
    with_index: bool,
) -> Result<(), StoreError> {
    let place = connection.place.clone();
    let known = STEPS.len() as i64;
    let newer = |found| StoreError::Newer {
        place: place.clone(),
        found,
        known,
    };
    let version = version(connection).await?.unwrap_or_default();
    if version > known {
        return Err(newer(version));
    }
    let has_index = has_index(connection).await?;
    if version == known && (has_index || !with_index) {
        return Ok(());
    }
    let timeout = connection.timeout;
    let changed = async {
        let transaction = connection.client.transaction().await?;
        change(&transaction, STEPS, with_index).await?;
        transaction.commit().await
    };
    // With an index to build nobody can say how long it takes.
    let timeout = if with_index {
        timeout.max(INDEX_TIMEOUT)
    } else {
        timeout
    };
    within(&place, timeout, changed).await
}

const INDEX_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3_600);

async fn change(
    transaction: &Transaction<'_>,
    steps: &[&str],
    with_index: bool,
) -> Result<(), Error> {
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    // Another node may have done it while this one waited.
    let version = version_of(transaction.client()).await?.unwrap_or_default();
    let todo = usize::try_from(version)
        .ok()
        .and_then(|version| steps.get(version..));
    for step in todo.unwrap_or_default() {
        transaction.batch_execute(step).await?;
    }
    if todo.is_some_and(|todo| !todo.is_empty()) {
        let sql = "UPDATE crawl_schema SET version = $1";
        transaction.execute(sql, &[&(steps.len() as i64)]).await?;
    }
    if with_index {
        transaction.batch_execute(&index()).await?;
    }
    Ok(())
}

fn index() -> String {
    format!(
        "ALTER TABLE crawl_pages ADD COLUMN IF NOT EXISTS search tsvector GENERATED ALWAYS AS (
            setweight(to_tsvector('simple', left(coalesce(title, ''), 10000)), 'A')
            || to_tsvector('simple', left(coalesce(text, ''), {INDEXED_CHARACTERS_MAX}))
        ) STORED;
        CREATE INDEX IF NOT EXISTS crawl_pages_by_words ON crawl_pages USING gin (search);"
    )
}

/// The version of the tables, if there are any.
pub(super) async fn version(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let version = version_of(&connection.client);
    within(&connection.place, connection.timeout, version).await
}

async fn version_of(client: &Client) -> Result<Option<i64>, Error> {
    // Looked for as a row: what the server remembers of names may be older than the lock.
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'crawl_schema' AND pg_table_is_visible(oid))";
    if !client.query_one(sql, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = client
        .query_opt("SELECT version FROM crawl_schema", &[])
        .await?;
    row.map(|row| row.try_get(0)).transpose()
}

pub(super) async fn has_index(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('crawl_pages') AND attname = 'search' AND NOT attisdropped)";
    let row = connection.client.query_one(sql, &[]);
    let has = async { row.await?.try_get(0) };
    within(&connection.place, connection.timeout, has).await
}

/// What a reader says if the tables are not of this version.
pub(super) fn check(version: Option<i64>, place: &str) -> Result<(), StoreError> {
    let known = STEPS.len() as i64;
    let place = place.to_owned();
    match version {
        None => Err(StoreError::Missing(place)),
        Some(found) if found > known => Err(StoreError::Newer {
            place,
            found,
            known,
        }),
        Some(found) if found < known => Err(StoreError::Unusable {
            place,
            problem: format!(
                "it has the schema {found} of an older version; crawl once with it, which brings it to {known}"
            ),
        }),
        Some(_) => Ok(()),
    }
}
