//! Writing.

use std::path::Path;

use rusqlite::{
    Connection, OptionalExtension, Statement, Transaction, TransactionBehavior, params,
};

use super::super::content::Packer;
use super::super::rows::SEEN;
use super::super::{PageRow, RefusalRow, Settings, StoreError};
use super::schema::{self, Found};
use super::{BUSY_TIMEOUT_MAX, Database, FILE, int, problem};

/// How the file is laid out and cached, as measured by examples/measure_store.rs. Larger pages take less time for long rows and more
/// for indexes, of which each row changes pages here and there.
const PAGE_BYTES: i64 = 4_096;
const CACHE_KIB: i64 = 64 * 1_024;
/// What was written is moved from the log into the file when the log has so many pages. Often means that a page of an index is
/// moved again and again; seldom means that one batch waits long.
const LOG_PAGES_MAX: i64 = 4_096;

/// A database that is written by nobody else in this process.
pub(in super::super) struct Writer {
    database: Database,
    packer: Packer,
    keeps_bodies: bool,
}

impl Writer {
    pub fn open(folder: &Path, settings: Settings) -> Result<Self, StoreError> {
        let file = folder.join(FILE);
        let unusable = |error: std::io::Error| StoreError::Unusable {
            place: folder.display().to_string(),
            problem: format!("{error}; name a folder that can be written"),
        };
        std::fs::create_dir_all(folder).map_err(unusable)?;
        let packer = Packer::new().map_err(unusable)?;
        let told = |error| problem(&file, &error);
        let mut connection = connect(&file, settings).map_err(told)?;
        match schema::bring_up(&mut connection).map_err(told)? {
            Found::Foreign => return Err(StoreError::Foreign(file.display().to_string())),
            Found::Version(found) if found > schema::latest() => {
                return Err(StoreError::Newer {
                    place: file.display().to_string(),
                    found,
                    known: schema::latest(),
                });
            }
            Found::Version(_) | Found::Empty => {}
        }
        if settings.search {
            schema::build_index(&mut connection).map_err(told)?;
        }
        Ok(Self {
            database: Database { connection, file },
            packer,
            keeps_bodies: settings.keeps_bodies,
        })
    }

    pub fn write(&mut self, pages: &[PageRow], refusals: &[RefusalRow]) -> Result<(), StoreError> {
        // Packed before the database is held.
        let bodies = self.bodies(pages)?;
        let written = self.transact(pages, &bodies, refusals);
        written.map_err(|error| self.database.problem(&error))
    }

    fn bodies(&mut self, pages: &[PageRow]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let mut bodies = Vec::with_capacity(pages.len());
        for page in pages {
            let body = page.body.as_ref().filter(|_| self.keeps_bodies);
            let packed = body.map(|body| self.packer.pack(body)).transpose();
            bodies.push(packed.map_err(|error| StoreError::Unusable {
                place: page.url.clone(),
                problem: format!("its body cannot be packed: {error}"),
            })?);
        }
        Ok(bodies)
    }

    fn transact(
        &mut self,
        pages: &[PageRow],
        bodies: &[Option<Vec<u8>>],
        refusals: &[RefusalRow],
    ) -> rusqlite::Result<()> {
        let connection = &mut self.database.connection;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !pages.is_empty() {
            // Another writer may have made the index meanwhile.
            let has_index = schema::has_index(&transaction)?;
            let mut statements = PageStatements::new(&transaction, has_index)?;
            for (page, body) in pages.iter().zip(bodies) {
                statements.write(page, body.as_deref())?;
            }
        }
        write_refusals(&transaction, refusals)?;
        transaction.commit()
    }
}

fn connect(file: &Path, settings: Settings) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(settings.timeout.min(BUSY_TIMEOUT_MAX))?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // Readers go on beside the writer, and a transaction is one sync.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// What writes pages, prepared for one transaction.
struct PageStatements<'a> {
    connection: &'a Connection,
    insert: Statement<'a>,
    replace: Statement<'a>,
    confirm: Statement<'a>,
    put: Statement<'a>,
    take: Statement<'a>,
    index: Option<IndexStatements<'a>>,
}

const INSERT: &str = "
    INSERT INTO pages (url, final_url, host, depth, from_url, status, mime, charset, size, fetched_at, took_ms,
        node, title, language, description, hash, simhash, headers, fields, fetches)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, 1)
    ON CONFLICT (url) DO NOTHING";

/// That it was fetched once more is only counted if it was: the same may be written twice.
const REPLACE: &str = "
    UPDATE pages SET final_url = ?2, host = ?3, depth = ?4, from_url = ?5, status = ?6, mime = ?7,
        charset = ?8, size = ?9, fetched_at = ?10, took_ms = ?11, node = ?12, title = ?13, language = ?14,
        description = ?15, hash = ?16, simhash = ?17, headers = ?18, fields = ?19,
        fetches = fetches + (fetched_at <> ?10)
    WHERE url = ?1 RETURNING id";

const CONFIRM: &str = "
    UPDATE pages SET fetches = fetches + (fetched_at <> ?2), fetched_at = ?2, took_ms = ?3, node = ?4 WHERE url = ?1";

const PUT: &str = "INSERT OR REPLACE INTO contents (id, text, body) VALUES (?1, ?2, ?3)";

const TAKE: &str = "DELETE FROM contents WHERE id = ?1";

impl<'a> PageStatements<'a> {
    fn new(transaction: &'a Transaction<'_>, has_index: bool) -> rusqlite::Result<Self> {
        Ok(Self {
            connection: transaction,
            insert: transaction.prepare(INSERT)?,
            replace: transaction.prepare(REPLACE)?,
            confirm: transaction.prepare(CONFIRM)?,
            put: transaction.prepare(PUT)?,
            take: transaction.prepare(TAKE)?,
            index: match has_index {
                true => Some(IndexStatements::new(transaction)?),
                false => None,
            },
        })
    }

    fn write(&mut self, page: &PageRow, body: Option<&[u8]>) -> rusqlite::Result<()> {
        if page.is_unchanged() && self.confirm(page)? {
            return Ok(());
        }
        if let Some(index) = &mut self.index {
            index.take(&page.url)?;
        }
        let id = self.put_row(page)?;
        match (&page.text, body) {
            (None, None) => self.take.execute([id])?,
            (text, body) => self.put.execute(params![id, text, body])?,
        };
        if let Some(index) = &mut self.index {
            index.put(id, page)?;
        }
        Ok(())
    }

    /// Whether there is a page that was found unchanged.
    fn confirm(&mut self, page: &PageRow) -> rusqlite::Result<bool> {
        let (at, took) = (page.fetched_at, int(page.took_ms));
        let changed = self
            .confirm
            .execute(params![page.url, at, took, page.node])?;
        Ok(changed > 0)
    }

    /// Most pages are new, and that takes less time than one statement for both.
    fn put_row(&mut self, page: &PageRow) -> rusqlite::Result<i64> {
        let row = params![
            page.url,
            page.ended_elsewhere(),
            page.host,
            page.depth,
            page.from,
            page.status,
            page.mime,
            page.charset,
            int(page.size),
            page.fetched_at,
            int(page.took_ms),
            page.node,
            page.title,
            page.language,
            page.description,
            page.hash,
            page.simhash,
            page.headers,
            page.fields,
        ];
        if self.insert.execute(row)? > 0 {
            return Ok(self.connection.last_insert_rowid());
        }
        self.replace.query_row(row, |row| row.get(0))
    }
}

/// What keeps the full-text index up.
struct IndexStatements<'a> {
    old: Statement<'a>,
    take: Statement<'a>,
    put: Statement<'a>,
}

impl<'a> IndexStatements<'a> {
    fn new(transaction: &'a Transaction<'_>) -> rusqlite::Result<Self> {
        let old = "SELECT pages.id, searchable.title, searchable.text FROM pages JOIN searchable USING (id) WHERE url = ?1";
        let take = "INSERT INTO search (search, rowid, title, text) VALUES ('delete', ?1, ?2, ?3)";
        let put = "INSERT INTO search (rowid, title, text) VALUES (?1, ?2, ?3)";
        Ok(Self {
            old: transaction.prepare(old)?,
            take: transaction.prepare(take)?,
            put: transaction.prepare(put)?,
        })
    }

    /// Takes a page out, before it is replaced: the index has to be told what stands in it.
    fn take(&mut self, url: &str) -> rusqlite::Result<()> {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let old: Option<(i64, String, String)> = self.old.query_row([url], row).optional()?;
        match old {
            Some(old) => self.take.execute(old).map(drop),
            None => Ok(()),
        }
    }

    fn put(&mut self, id: i64, page: &PageRow) -> rusqlite::Result<()> {
        let title = page.title.as_deref().unwrap_or_default();
        let text = page.text.as_deref().unwrap_or_default();
        self.put.execute(params![id, title, text]).map(drop)
    }
}

/// That something was seen before replaces no other reason.
const REFUSE: &str = "
    INSERT INTO refusals (url, host, stage, rule, reason, from_url, depth, at, node)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (url) DO UPDATE SET host = ?2, stage = ?3, rule = ?4, reason = ?5, from_url = ?6, depth = ?7, at = ?8,
        node = ?9
    WHERE ?4 <> ?10 OR rule = ?10";

fn write_refusals(transaction: &Transaction<'_>, refusals: &[RefusalRow]) -> rusqlite::Result<()> {
    if refusals.is_empty() {
        return Ok(());
    }
    let mut refuse = transaction.prepare(REFUSE)?;
    for refusal in refusals {
        refuse.execute(params![
            refusal.url,
            refusal.host,
            refusal.stage,
            refusal.rule,
            refusal.reason,
            refusal.from,
            refusal.depth,
            refusal.at,
            refusal.node,
            SEEN,
        ])?;
    }
    Ok(())
}
