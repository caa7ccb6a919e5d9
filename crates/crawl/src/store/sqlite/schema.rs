//! The tables, and how those of older versions become those of this one.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours: "Hive".
pub(super) const APPLICATION: i64 = 0x4869_7665;

/// What makes each version from the one before. The first makes it from nothing. What stands here is never changed, as there
/// are stores that were made by it: another version is another entry.
const STEPS: &[&str] = &["
    CREATE TABLE schema (version INTEGER NOT NULL);
    INSERT INTO schema VALUES (0);
    CREATE TABLE pages (
        id INTEGER PRIMARY KEY,
        url TEXT NOT NULL UNIQUE,
        final_url TEXT,
        host TEXT NOT NULL,
        depth INTEGER NOT NULL,
        from_url TEXT,
        status INTEGER NOT NULL,
        mime TEXT,
        charset TEXT,
        size INTEGER NOT NULL,
        fetched_at INTEGER NOT NULL,
        took_ms INTEGER NOT NULL,
        node TEXT NOT NULL,
        title TEXT,
        language TEXT,
        description TEXT,
        hash TEXT,
        simhash TEXT,
        headers TEXT,
        fields TEXT,
        fetches INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX pages_by_time ON pages (fetched_at, id);
    CREATE INDEX pages_by_host ON pages (host, fetched_at, size);
    CREATE INDEX pages_by_end ON pages (final_url) WHERE final_url IS NOT NULL;
    CREATE TABLE contents (
        id INTEGER PRIMARY KEY,
        text TEXT,
        body BLOB
    ) STRICT;
    CREATE VIEW searchable AS
        SELECT pages.id, coalesce(title, '') AS title, coalesce(text, '') AS text
        FROM pages LEFT JOIN contents ON contents.id = pages.id;
    CREATE TABLE refusals (
        id INTEGER PRIMARY KEY,
        url TEXT NOT NULL UNIQUE,
        host TEXT NOT NULL,
        stage TEXT,
        rule TEXT NOT NULL,
        reason TEXT NOT NULL,
        from_url TEXT,
        depth INTEGER NOT NULL,
        at INTEGER NOT NULL,
        node TEXT NOT NULL
    ) STRICT;
    CREATE INDEX refusals_by_rule ON refusals (rule);
"];

/// What stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing yet.
    Empty,
    /// Something else.
    Foreign,
    /// A store of this version.
    Version(i64),
}

/// The latest version.
pub(super) fn latest() -> i64 {
    STEPS.len() as i64
}

pub(super) fn found(connection: &Connection) -> rusqlite::Result<Found> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(sql, (), |row| row.get(0))?;
    match (tables, pragma("application_id")?) {
        (0, _) => Ok(Found::Empty),
        (_, APPLICATION) => {
            let sql = "SELECT version FROM schema";
            connection.query_row(sql, (), |row| row.get(0).map(Found::Version))
        }
        _ => Ok(Found::Foreign),
    }
}

/// Brings the tables to the latest version, if they are older. Says what was found.
pub(super) fn bring_up(connection: &mut Connection) -> rusqlite::Result<Found> {
    bring_up_with(connection, STEPS)
}

fn bring_up_with(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<Found> {
    // Another process may be about to do the same, so what is there is looked at with the database held.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = found(&transaction)?;
    let version = match found {
        Found::Empty => 0,
        Found::Version(version) => version,
        Found::Foreign => return Ok(found),
    };
    let todo = usize::try_from(version)
        .ok()
        .and_then(|version| steps.get(version..));
    for step in todo.unwrap_or_default() {
        transaction.execute_batch(step)?;
    }
    if todo.is_some_and(|todo| !todo.is_empty()) {
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.execute("UPDATE schema SET version = ?1", [steps.len() as i64])?;
    }
    transaction.commit()?;
    Ok(found)
}

/// The full-text index. Title and text stay where they are: it only refers to them.
const INDEX: &str = "
    CREATE VIRTUAL TABLE search USING fts5 (
        title, text, content = 'searchable', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
    );
    INSERT INTO search (search) VALUES ('rebuild');
";

pub(super) fn has_index(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'search')";
    connection.query_row(sql, (), |row| row.get(0))
}

/// Makes the full-text index of all that is there, unless there is one.
pub(super) fn build_index(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !has_index(&transaction)? {
        transaction.execute_batch(INDEX)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_store_is_brought_up_step_by_step_and_keeps_its_rows() {
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(bring_up(&mut connection).unwrap(), Found::Empty);
        assert_eq!(found(&connection).unwrap(), Found::Version(latest()));
        let insert = "INSERT INTO refusals (url, host, rule, reason, depth, at, node) VALUES ('u', 'h', 'r', 'because', 1, 2, 'n')";
        connection.execute(insert, ()).unwrap();

        let mut steps = STEPS.to_vec();
        steps.push("ALTER TABLE refusals ADD COLUMN weight INTEGER NOT NULL DEFAULT 7");
        steps.push("ALTER TABLE refusals RENAME COLUMN weight TO importance");
        let was = bring_up_with(&mut connection, &steps).unwrap();
        assert_eq!(was, Found::Version(latest()));
        assert_eq!(found(&connection).unwrap(), Found::Version(latest() + 2));
        let sql = "SELECT url, importance FROM refusals";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let row: (String, i64) = connection.query_row(sql, (), row).unwrap();
        assert_eq!(row, ("u".to_owned(), 7));
        // A newer one is left as it is.
        assert_eq!(
            bring_up(&mut connection).unwrap(),
            Found::Version(latest() + 2)
        );
        assert_eq!(found(&connection).unwrap(), Found::Version(latest() + 2));
    }
}
