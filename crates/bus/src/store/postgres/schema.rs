//! Tables and functions, made by whoever comes first.

use tokio_postgres::Client;

/// What each version adds to the one before it.
const VERSIONS: &[&str] = &[include_str!("schema.sql"), include_str!("schema-2.sql")];

/// The oldest server that has all that is used here: sets of ranges.
const SERVER_VERSION_MIN: i32 = 140_000;

/// The longest name that the server does not shorten.
const SCHEMA_NAME_BYTES_MAX: usize = 63;

/// Why the schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("{0}")]
    Server(#[from] tokio_postgres::Error),
    #[error("PostgreSQL 14 or later is needed, and this one says {0}: upgrade it")]
    OldServer(i32),
    #[error(
        "the schema {schema} has version {found}, and this node knows {known}: upgrade this node"
    )]
    Newer {
        schema: String,
        found: i32,
        known: i32,
    },
}

/// Whether a schema can be called this without quotation marks.
pub(super) fn is_schema_name(text: &str) -> bool {
    let begins_well = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    begins_well && text.chars().all(is_plain) && text.len() <= SCHEMA_NAME_BYTES_MAX
}

/// SQL with the name of the schema in its place.
pub(super) fn in_schema(sql: &str, schema: &str) -> String {
    sql.replace("SCHEMA.", &format!("{schema}."))
}

/// Brings the schema to the version of this program.
pub(super) async fn prepare(client: &mut Client, schema: &str) -> Result<(), SchemaError> {
    let server: i32 = client
        .query_one("SELECT current_setting('server_version_num')::integer", &[])
        .await?
        .get(0);
    if server < SERVER_VERSION_MIN {
        return Err(SchemaError::OldServer(server));
    }
    let known = VERSIONS.len() as i32;
    if version(client, schema).await? == known {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    // Others may be doing the same: one after another.
    transaction
        .execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('hivewire schema ' || $1, 0))",
            &[&schema],
        )
        .await?;
    let found = version(transaction.client(), schema).await?;
    if found > known {
        return Err(SchemaError::Newer {
            schema: schema.to_owned(),
            found,
            known,
        });
    }
    // A schema that is there needs no right to make one.
    let is_missing: bool = transaction
        .query_one("SELECT to_regnamespace($1) IS NULL", &[&schema])
        .await?
        .get(0);
    if is_missing {
        let opening = format!("CREATE SCHEMA {schema}");
        transaction.batch_execute(&opening).await?;
    }
    let opening = format!("CREATE TABLE IF NOT EXISTS {schema}.version (version integer NOT NULL)");
    transaction.batch_execute(&opening).await?;
    for sql in &VERSIONS[found as usize..] {
        transaction.batch_execute(&in_schema(sql, schema)).await?;
    }
    let closing = format!(
        "DELETE FROM {schema}.version; INSERT INTO {schema}.version (version) VALUES ({known});"
    );
    transaction.batch_execute(&closing).await?;
    transaction.commit().await?;
    tracing::info!(schema, "the shared store has version {known} now");
    Ok(())
}

/// The version that the schema has; zero if there is none.
async fn version(client: &Client, schema: &str) -> Result<i32, tokio_postgres::Error> {
    let table = format!("{schema}.version");
    let found = client
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&table])
        .await?;
    if !found.get::<_, bool>(0) {
        return Ok(0);
    }
    let sql = format!("SELECT version FROM {table}");
    let row = client.query_opt(&sql, &[]).await?;
    Ok(row.map_or(0, |row| row.get(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_become_part_of_sql() {
        assert!(is_schema_name("hivewire") && is_schema_name("_a1"));
        for wrong in ["", "1a", "A", "a-b", "a;b", "a\"", "ä", &"a".repeat(64)] {
            assert!(!is_schema_name(wrong), "{wrong}");
        }
        assert_eq!(in_schema("a SCHEMA.b", "x"), "a x.b");
    }
}
