//! Writing.

use std::borrow::Cow;

use tokio_postgres::{Error, Statement, Transaction};

use super::super::content::Packer;
use super::super::place::Server;
use super::super::rows::{SEEN, last_of_each};
use super::super::{PageRow, RefusalRow, Settings, StoreError};
use super::{Connection, key, schema, within};

/// A database that is written.
pub(in super::super) struct Writer {
    connection: Connection,
    statements: Statements,
    packer: Packer,
    keeps_bodies: bool,
}

struct Statements {
    upsert: Statement,
    confirm: Statement,
    refuse: Statement,
}

/// All rows in one statement, a list for each column. That a page was fetched once more is only counted if it was: the same may
/// be written twice.
const UPSERT: &str = "
    INSERT INTO crawl_pages AS old (key, url, final_url, host, depth, from_url, status, mime, charset, size, fetched_at,
        took_ms, node, title, language, description, hash, simhash, headers, fields, text, body, fetches)
    SELECT key, url, final_url, host, depth, from_url, status, mime, charset, size, fetched_at, took_ms, node, title,
        language, description, hash, simhash, headers::json, fields::json, text, body, 1
    FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[],
        $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::bytea[])
    AS given (key, url, final_url, host, depth, from_url, status, mime, charset, size, fetched_at, took_ms, node,
        title, language, description, hash, simhash, headers, fields, text, body)
    ON CONFLICT (key) DO UPDATE SET final_url = EXCLUDED.final_url, host = EXCLUDED.host, depth = EXCLUDED.depth,
        from_url = EXCLUDED.from_url, status = EXCLUDED.status, mime = EXCLUDED.mime, charset = EXCLUDED.charset,
        size = EXCLUDED.size, fetched_at = EXCLUDED.fetched_at, took_ms = EXCLUDED.took_ms, node = EXCLUDED.node,
        title = EXCLUDED.title, language = EXCLUDED.language, description = EXCLUDED.description,
        hash = EXCLUDED.hash, simhash = EXCLUDED.simhash, headers = EXCLUDED.headers, fields = EXCLUDED.fields,
        text = EXCLUDED.text, body = EXCLUDED.body,
        fetches = old.fetches + (old.fetched_at <> EXCLUDED.fetched_at)::int";

const CONFIRM: &str = "
    UPDATE crawl_pages AS old SET fetches = old.fetches + (old.fetched_at <> given.fetched_at)::int,
        fetched_at = given.fetched_at, took_ms = given.took_ms, node = given.node
    FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[]) AS given (key, fetched_at, took_ms, node)
    WHERE old.key = given.key RETURNING old.key";

/// That something was seen before replaces no other reason.
const REFUSE: &str = "
    INSERT INTO crawl_refusals AS old (key, url, host, stage, rule, reason, from_url, depth, at, node)
    SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
        $8::bigint[], $9::bigint[], $10::text[])
    ON CONFLICT (key) DO UPDATE SET host = EXCLUDED.host, stage = EXCLUDED.stage, rule = EXCLUDED.rule,
        reason = EXCLUDED.reason, from_url = EXCLUDED.from_url, depth = EXCLUDED.depth, at = EXCLUDED.at,
        node = EXCLUDED.node
    WHERE EXCLUDED.rule <> $11 OR old.rule = $11";

impl Writer {
    pub async fn open(server: &Server, settings: Settings) -> Result<Self, StoreError> {
        let mut connection = Connection::open(server, settings.timeout).await?;
        schema::bring_up(&mut connection, settings.search).await?;
        let client = &connection.client;
        let statements = async {
            Ok(Statements {
                upsert: client.prepare(UPSERT).await?,
                confirm: client.prepare(CONFIRM).await?,
                refuse: client.prepare(REFUSE).await?,
            })
        };
        let statements = within(&connection.place, settings.timeout, statements).await?;
        let packer = Packer::new().map_err(|error| StoreError::Unusable {
            place: connection.place.clone(),
            problem: error.to_string(),
        })?;
        Ok(Self {
            connection,
            statements,
            packer,
            keeps_bodies: settings.keeps_bodies,
        })
    }

    pub async fn write(
        &mut self,
        pages: &[PageRow],
        refusals: &[RefusalRow],
    ) -> Result<(), StoreError> {
        let mut pages = last_of_each(pages, |page| &page.url);
        let mut refusals = last_of_each(refusals, |refusal| &refusal.url);
        // Two nodes that write the same rows would wait for each other if they did it in different orders.
        pages.sort_unstable_by(|one, other| one.url.cmp(&other.url));
        refusals.sort_unstable_by(|one, other| one.url.cmp(&other.url));
        let Connection {
            client,
            place,
            timeout,
            ..
        } = &mut self.connection;
        let (statements, packer, keeps_bodies) =
            (&self.statements, &mut self.packer, self.keeps_bodies);
        let written = async {
            let transaction = client.transaction().await?;
            let pages = unconfirmed(&transaction, &statements.confirm, pages).await?;
            let mut columns = PageColumns::default();
            for page in pages {
                columns.push(page, page.body.as_ref().filter(|_| keeps_bodies), packer);
            }
            columns.write(&transaction, &statements.upsert).await?;
            refuse(&transaction, &statements.refuse, &refusals).await?;
            transaction.commit().await
        };
        within(place, *timeout, written).await
    }
}

/// Those pages that are not there as they were when they were fetched before.
async fn unconfirmed<'a>(
    transaction: &Transaction<'_>,
    confirm: &Statement,
    pages: Vec<&'a PageRow>,
) -> Result<Vec<&'a PageRow>, Error> {
    let unchanged = pages.iter().filter(|page| page.is_unchanged());
    let unchanged: Vec<&&PageRow> = unchanged.collect();
    if unchanged.is_empty() {
        return Ok(pages);
    }
    let keys: Vec<[u8; 16]> = unchanged.iter().map(|page| key(&page.url)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let times: Vec<i64> = unchanged.iter().map(|page| page.fetched_at).collect();
    let took: Vec<i64> = unchanged.iter().map(|page| int(page.took_ms)).collect();
    let nodes: Vec<&str> = unchanged.iter().map(|page| page.node.as_str()).collect();
    let rows = transaction
        .query(confirm, &[&keys, &times, &took, &nodes])
        .await?;
    let mut confirmed = std::collections::HashSet::with_capacity(rows.len());
    for row in &rows {
        confirmed.insert(row.try_get::<_, &[u8]>(0)?);
    }
    let is_left =
        |page: &&PageRow| !page.is_unchanged() || !confirmed.contains(&key(&page.url)[..]);
    Ok(pages.into_iter().filter(is_left).collect())
}

type Text<'a> = Cow<'a, str>;

/// Pages, a list for each column.
#[derive(Default)]
struct PageColumns<'a> {
    key: Vec<Vec<u8>>,
    url: Vec<Text<'a>>,
    final_url: Vec<Option<Text<'a>>>,
    host: Vec<Text<'a>>,
    depth: Vec<i64>,
    from_url: Vec<Option<Text<'a>>>,
    status: Vec<i64>,
    mime: Vec<Option<Text<'a>>>,
    charset: Vec<Option<Text<'a>>>,
    size: Vec<i64>,
    fetched_at: Vec<i64>,
    took_ms: Vec<i64>,
    node: Vec<Text<'a>>,
    title: Vec<Option<Text<'a>>>,
    language: Vec<Option<Text<'a>>>,
    description: Vec<Option<Text<'a>>>,
    hash: Vec<Option<Text<'a>>>,
    simhash: Vec<Option<Text<'a>>>,
    headers: Vec<Option<Text<'a>>>,
    fields: Vec<Option<Text<'a>>>,
    text: Vec<Option<Text<'a>>>,
    body: Vec<Option<Vec<u8>>>,
}

impl<'a> PageColumns<'a> {
    fn push(&mut self, page: &'a PageRow, body: Option<&bytes::Bytes>, packer: &mut Packer) {
        self.key.push(key(&page.url).to_vec());
        self.url.push(clean(&page.url));
        self.final_url.push(page.ended_elsewhere().map(clean));
        self.host.push(clean(&page.host));
        self.depth.push(page.depth.into());
        self.from_url.push(maybe(&page.from));
        self.status.push(page.status.into());
        self.mime.push(maybe(&page.mime));
        self.charset.push(maybe(&page.charset));
        self.size.push(int(page.size));
        self.fetched_at.push(page.fetched_at);
        self.took_ms.push(int(page.took_ms));
        self.node.push(clean(&page.node));
        self.title.push(maybe(&page.title));
        self.language.push(maybe(&page.language));
        self.description.push(maybe(&page.description));
        self.hash.push(maybe(&page.hash));
        self.simhash.push(maybe(&page.simhash));
        self.headers.push(maybe(&page.headers));
        self.fields.push(maybe(&page.fields));
        self.text.push(maybe(&page.text));
        // Packing into memory fails only where memory does.
        self.body.push(body.and_then(|body| packer.pack(body).ok()));
    }

    async fn write(&self, transaction: &Transaction<'_>, upsert: &Statement) -> Result<(), Error> {
        if self.key.is_empty() {
            return Ok(());
        }
        let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 22] = [
            &self.key,
            &self.url,
            &self.final_url,
            &self.host,
            &self.depth,
            &self.from_url,
            &self.status,
            &self.mime,
            &self.charset,
            &self.size,
            &self.fetched_at,
            &self.took_ms,
            &self.node,
            &self.title,
            &self.language,
            &self.description,
            &self.hash,
            &self.simhash,
            &self.headers,
            &self.fields,
            &self.text,
            &self.body,
        ];
        transaction.execute(upsert, &columns).await.map(drop)
    }
}

async fn refuse(
    transaction: &Transaction<'_>,
    statement: &Statement,
    refusals: &[&RefusalRow],
) -> Result<(), Error> {
    if refusals.is_empty() {
        return Ok(());
    }
    fn texts<'a>(rows: &[&'a RefusalRow], of: impl Fn(&'a RefusalRow) -> &'a str) -> Vec<Text<'a>> {
        rows.iter().map(|row| clean(of(row))).collect()
    }
    let key: Vec<Vec<u8>> = refusals.iter().map(|row| key(&row.url).to_vec()).collect();
    let stage: Vec<_> = refusals.iter().map(|row| maybe(&row.stage)).collect();
    let from: Vec<_> = refusals.iter().map(|row| maybe(&row.from)).collect();
    let depth: Vec<i64> = refusals.iter().map(|row| row.depth.into()).collect();
    let at: Vec<i64> = refusals.iter().map(|row| row.at).collect();
    let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 11] = [
        &key,
        &texts(refusals, |row| &row.url),
        &texts(refusals, |row| &row.host),
        &stage,
        &texts(refusals, |row| &row.rule),
        &texts(refusals, |row| &row.reason),
        &from,
        &depth,
        &at,
        &texts(refusals, |row| &row.node),
        &SEEN,
    ];
    transaction.execute(statement, &columns).await.map(drop)
}

fn maybe(text: &Option<String>) -> Option<Text<'_>> {
    text.as_deref().map(clean)
}

/// PostgreSQL takes no text with a zero in it.
fn clean(text: &str) -> Text<'_> {
    match memchr::memchr(0, text.as_bytes()) {
        Some(_) => text.replace('\0', "").into(),
        None => text.into(),
    }
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
