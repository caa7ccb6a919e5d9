//! Reading, beside a writer that goes on.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row, params_from_iter};

use super::super::query::{
    Given, MATCH_BEGIN, MATCH_END, PAGE_COLUMNS, PAGE_COLUMNS_COUNT, REFUSAL_COLUMNS, snippet,
};
use super::super::{
    Counts, Hit, HostCounts, Listing, PageFilter, PageRow, READ_TIMEOUT, RefusalRow, StoreError,
};
use super::schema::{self, Found};
use super::{Database, FILE, problem, words};

/// A database that is only read.
pub(in super::super) struct Reader(Database);

/// Moving the file through the cache of the system is what takes time when much is read, so it is mapped.
const MAPPED_BYTES_MAX: i64 = 1 << 30;

impl Reader {
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let file = folder.join(FILE);
        if !file.is_file() {
            return Err(StoreError::Missing(folder.display().to_string()));
        }
        let connection = connect(&file).map_err(|error| problem(&file, &error))?;
        let place = || file.display().to_string();
        match schema::found(&connection).map_err(|error| problem(&file, &error))? {
            Found::Empty => Err(StoreError::Missing(folder.display().to_string())),
            Found::Foreign => Err(StoreError::Foreign(place())),
            Found::Version(found) if found > schema::latest() => Err(StoreError::Newer {
                place: place(),
                found,
                known: schema::latest(),
            }),
            Found::Version(found) if found < schema::latest() => Err(StoreError::Unusable {
                place: place(),
                problem: format!(
                    "it has the schema {found} of an older version; crawl once with it, which brings it to {}",
                    schema::latest()
                ),
            }),
            Found::Version(_) => Ok(Self(Database { connection, file })),
        }
    }

    pub fn page(&mut self, url: &str) -> Result<Option<PageRow>, StoreError> {
        self.one_page("url = ?1", url)
    }

    pub fn page_ending_at(&mut self, url: &str) -> Result<Option<PageRow>, StoreError> {
        self.one_page("final_url = ?1 ORDER BY fetched_at DESC LIMIT 1", url)
    }

    fn one_page(&mut self, condition: &str, url: &str) -> Result<Option<PageRow>, StoreError> {
        let sql = format!(
            "SELECT {PAGE_COLUMNS}, (SELECT text FROM contents WHERE contents.id = pages.id) FROM pages WHERE {condition}"
        );
        let page = self.0.connection.query_row(&sql, [url], page_with_text);
        let page = page.optional().map_err(|error| self.0.problem(&error))?;
        Ok(page.map(|(_, page)| page))
    }

    pub fn body(&mut self, url: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM contents WHERE id = (SELECT id FROM pages WHERE url = ?1)";
        let body = self.0.connection.query_row(sql, [url], |row| row.get(0));
        let body = body.optional().map_err(|error| self.0.problem(&error))?;
        Ok(body.flatten())
    }

    pub fn refusal(&mut self, url: &str) -> Result<Option<RefusalRow>, StoreError> {
        let sql = format!("SELECT {REFUSAL_COLUMNS} FROM refusals WHERE url = ?1");
        let refusal = self.0.connection.query_row(&sql, [url], refusal);
        let refusal = refusal.optional().map_err(|error| self.0.problem(&error))?;
        Ok(refusal.map(|(_, refusal)| refusal))
    }

    pub fn pages(&mut self, filter: &PageFilter) -> Result<Listing, StoreError> {
        let (sql, given) = filter.statement("pages")?;
        let given = given.into_iter().map(|given| match given {
            Given::Text(text) => rusqlite::types::Value::Text(text),
            Given::Int(number) => rusqlite::types::Value::Integer(number),
        });
        let rows = self.rows(&sql, params_from_iter(given), page)?;
        Ok(filter.listing(rows))
    }

    pub fn pages_after(
        &mut self,
        number: i64,
        rows_max: usize,
    ) -> Result<Vec<(i64, PageRow)>, StoreError> {
        let sql = format!(
            "SELECT {PAGE_COLUMNS}, (SELECT text FROM contents WHERE contents.id = pages.id) FROM pages \
             WHERE id > ?1 ORDER BY id LIMIT {rows_max}"
        );
        self.rows(&sql, [number], page_with_text)
    }

    pub fn refusals_after(
        &mut self,
        number: i64,
        rows_max: usize,
    ) -> Result<Vec<(i64, RefusalRow)>, StoreError> {
        let sql = format!(
            "SELECT {REFUSAL_COLUMNS} FROM refusals WHERE id > ?1 ORDER BY id LIMIT {rows_max}"
        );
        self.rows(&sql, [number], refusal)
    }

    pub fn search(&mut self, words: &str, hits_max: usize) -> Result<Vec<Hit>, StoreError> {
        let has_index = schema::has_index(&self.0.connection);
        if !has_index.map_err(|error| self.0.problem(&error))? {
            return Err(StoreError::NoIndex(self.0.file.display().to_string()));
        }
        let Some(question) = words::question(words) else {
            return Ok(Vec::new());
        };
        let (begin, end) = (u32::from(MATCH_BEGIN), u32::from(MATCH_END));
        // A word in the title weighs as much as ten in the text.
        let sql = format!(
            "WITH found AS (
                SELECT rowid AS hit, rank AS place, snippet(search, 1, char({begin}), char({end}), '…', 24) AS marked
                FROM search WHERE search MATCH ?1 AND rank MATCH 'bm25(10.0, 1.0)' ORDER BY rank LIMIT {hits_max}
            ) SELECT {PAGE_COLUMNS}, marked FROM found JOIN pages ON id = hit ORDER BY place"
        );
        self.rows(&sql, [question], |row| {
            let marked: String = row.get(PAGE_COLUMNS_COUNT)?;
            Ok(Hit {
                page: page(row)?.1,
                snippet: snippet(&marked),
            })
        })
    }

    pub fn counts(&mut self) -> Result<Counts, StoreError> {
        let by_host =
            "SELECT host, count(*), sum(size) FROM pages GROUP BY host ORDER BY 2 DESC, 1";
        let mut hosts = self.rows(by_host, (), |row| {
            Ok(HostCounts {
                host: row.get(0)?,
                pages: natural(row, 1)?,
                bytes: natural(row, 2)?,
            })
        })?;
        let by_rule = "SELECT rule, count(*) FROM refusals GROUP BY rule";
        let refusals = self.rows(by_rule, (), |row| Ok((row.get(0)?, natural(row, 1)?)))?;
        let by_status = "SELECT status, count(*) FROM pages GROUP BY status";
        let statuses = self.rows(by_status, (), |row| Ok((row.get(0)?, natural(row, 1)?)))?;
        let (pages, bytes) = hosts.iter().fold((0, 0), |(pages, bytes), host| {
            (pages + host.pages, bytes + host.bytes)
        });
        let hosts_count = hosts.len() as u64;
        hosts.truncate(Counts::HOSTS_MAX);
        Ok(Counts {
            pages,
            bytes,
            hosts,
            hosts_count,
            statuses: statuses.into_iter().collect(),
            refusals: refusals.into_iter().collect(),
        })
    }

    fn rows<T>(
        &mut self,
        sql: &str,
        given: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = || {
            let mut statement = self.0.connection.prepare(sql)?;
            statement.query_map(given, row)?.collect()
        };
        let rows: rusqlite::Result<Vec<T>> = rows();
        rows.map_err(|error| self.0.problem(&error))
    }
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(READ_TIMEOUT)?;
    connection.pragma_update_and_check(None, "mmap_size", MAPPED_BYTES_MAX, |_| Ok(()))?;
    Ok(connection)
}

fn natural(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    Ok(u64::try_from(number).unwrap_or_default())
}

/// A row of [`PAGE_COLUMNS`].
fn page(row: &Row<'_>) -> rusqlite::Result<(i64, PageRow)> {
    let url: String = row.get(1)?;
    let final_url: Option<String> = row.get(2)?;
    let page = PageRow {
        final_url: final_url.unwrap_or_else(|| url.clone()),
        url,
        host: row.get(3)?,
        depth: row.get(4)?,
        from: row.get(5)?,
        status: row.get(6)?,
        mime: row.get(7)?,
        charset: row.get(8)?,
        size: natural(row, 9)?,
        fetched_at: row.get(10)?,
        took_ms: natural(row, 11)?,
        node: row.get(12)?,
        title: row.get(13)?,
        language: row.get(14)?,
        description: row.get(15)?,
        hash: row.get(16)?,
        simhash: row.get(17)?,
        headers: row.get(18)?,
        fields: row.get(19)?,
        fetches: row.get(20)?,
        text: None,
        body: None,
    };
    Ok((row.get(0)?, page))
}

fn page_with_text(row: &Row<'_>) -> rusqlite::Result<(i64, PageRow)> {
    let (number, mut page) = page(row)?;
    page.text = row.get(PAGE_COLUMNS_COUNT)?;
    Ok((number, page))
}

/// A row of [`REFUSAL_COLUMNS`].
fn refusal(row: &Row<'_>) -> rusqlite::Result<(i64, RefusalRow)> {
    let refusal = RefusalRow {
        url: row.get(1)?,
        host: row.get(2)?,
        stage: row.get(3)?,
        rule: row.get(4)?,
        reason: row.get(5)?,
        from: row.get(6)?,
        depth: row.get(7)?,
        at: row.get(8)?,
        node: row.get(9)?,
    };
    Ok((row.get(0)?, refusal))
}
