//! Reading.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::super::place::Server;
use super::super::query::{
    Given, MATCH_BEGIN, MATCH_END, PAGE_COLUMNS, PAGE_COLUMNS_COUNT, REFUSAL_COLUMNS, snippet,
};
use super::super::{Counts, Hit, HostCounts, Listing, PageFilter, PageRow, RefusalRow, StoreError};
use super::{Connection, key, schema, within};

/// A database that is only read.
pub(in super::super) struct Reader(Connection);

impl Reader {
    pub async fn open(server: &Server, timeout: Duration) -> Result<Self, StoreError> {
        let connection = Connection::open(server, timeout).await?;
        let read_only = "SET default_transaction_read_only = on";
        let setting = connection.client.batch_execute(read_only);
        within(&connection.place, timeout, setting).await?;
        schema::check(schema::version(&connection).await?, &connection.place)?;
        Ok(Self(connection))
    }

    pub async fn page(&mut self, url: &str) -> Result<Option<PageRow>, StoreError> {
        let sql = format!("SELECT {PAGE_COLUMNS}, text FROM crawl_pages WHERE key = $1");
        let rows = self.rows(&sql, &[&&key(url)[..]], page_with_text).await?;
        Ok(rows.into_iter().next().map(|(_, page)| page))
    }

    pub async fn page_ending_at(&mut self, url: &str) -> Result<Option<PageRow>, StoreError> {
        let sql = format!(
            "SELECT {PAGE_COLUMNS}, text FROM crawl_pages WHERE md5(final_url) = md5($1) AND final_url = $1 \
             ORDER BY fetched_at DESC LIMIT 1"
        );
        let rows = self.rows(&sql, &[&url], page_with_text).await?;
        Ok(rows.into_iter().next().map(|(_, page)| page))
    }

    pub async fn body(&mut self, url: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM crawl_pages WHERE key = $1";
        let rows = self
            .rows(sql, &[&&key(url)[..]], |row| row.try_get(0))
            .await?;
        Ok(rows.into_iter().next().flatten())
    }

    pub async fn refusal(&mut self, url: &str) -> Result<Option<RefusalRow>, StoreError> {
        let sql = format!("SELECT {REFUSAL_COLUMNS} FROM crawl_refusals WHERE key = $1");
        let rows = self.rows(&sql, &[&&key(url)[..]], refusal).await?;
        Ok(rows.into_iter().next().map(|(_, refusal)| refusal))
    }

    pub async fn pages(&mut self, filter: &PageFilter) -> Result<Listing, StoreError> {
        let (sql, given) = filter.statement("crawl_pages")?;
        let given: Vec<&(dyn ToSql + Sync)> = given
            .iter()
            .map(|given| match given {
                Given::Text(text) => text as &(dyn ToSql + Sync),
                Given::Int(number) => number,
            })
            .collect();
        Ok(filter.listing(self.rows(&sql, &given, page).await?))
    }

    pub async fn pages_after(
        &mut self,
        number: i64,
        rows_max: usize,
    ) -> Result<Vec<(i64, PageRow)>, StoreError> {
        let sql = format!(
            "SELECT {PAGE_COLUMNS}, text FROM crawl_pages WHERE id > $1 ORDER BY id LIMIT {rows_max}"
        );
        self.rows(&sql, &[&number], page_with_text).await
    }

    pub async fn refusals_after(
        &mut self,
        number: i64,
        rows_max: usize,
    ) -> Result<Vec<(i64, RefusalRow)>, StoreError> {
        let sql = format!(
            "SELECT {REFUSAL_COLUMNS} FROM crawl_refusals WHERE id > $1 ORDER BY id LIMIT {rows_max}"
        );
        self.rows(&sql, &[&number], refusal).await
    }

    pub async fn search(&mut self, words: &str, hits_max: usize) -> Result<Vec<Hit>, StoreError> {
        if !schema::has_index(&self.0).await? {
            return Err(StoreError::NoIndex(self.0.place.clone()));
        }
        // The best are chosen before their texts are looked at for snippets, which takes long.
        let sql = format!(
            "WITH wanted AS (SELECT websearch_to_tsquery('simple', $1) AS words), found AS (
                SELECT id AS hit, ts_rank(search, words, 1) AS rank FROM crawl_pages, wanted WHERE search @@ words
                ORDER BY rank DESC, id LIMIT {hits_max}
            )
            SELECT {PAGE_COLUMNS}, ts_headline('simple', left(coalesce(text, ''), 100000), words,
                'StartSel={MATCH_BEGIN}, StopSel={MATCH_END}, MaxWords=24, MinWords=12')
            FROM found JOIN crawl_pages ON id = hit, wanted ORDER BY rank DESC, id"
        );
        let words = words.replace('\0', " ");
        let hit = |row: &Row| {
            let marked: &str = row.try_get(PAGE_COLUMNS_COUNT)?;
            Ok(Hit {
                snippet: snippet(marked),
                page: page(row)?.1,
            })
        };
        self.rows(&sql, &[&words], hit).await
    }

    pub async fn counts(&mut self) -> Result<Counts, StoreError> {
        let all = |row: &Row| Ok((natural(row, 0)?, natural(row, 1)?, natural(row, 2)?));
        let by_host = format!(
            "SELECT host, count(*), sum(size)::bigint FROM crawl_pages GROUP BY host ORDER BY 2 DESC, 1 LIMIT {}",
            Counts::HOSTS_MAX
        );
        let by_rule = "SELECT rule, count(*) FROM crawl_refusals GROUP BY rule";
        let all = self.rows(ALL_COUNTS, &[], all).await?;
        let hosts = self
            .rows(&by_host, &[], |row| {
                Ok(HostCounts {
                    host: row.try_get(0)?,
                    pages: natural(row, 1)?,
                    bytes: natural(row, 2)?,
                })
            })
            .await?;
        let by_rule = self.rows(by_rule, &[], |row| Ok((row.try_get(0)?, natural(row, 1)?)));
        let refusals = by_rule.await?.into_iter().collect();
        let by_status = "SELECT status, count(*) FROM crawl_pages GROUP BY status";
        let by_status = self.rows(by_status, &[], |row| {
            let status = u16::try_from(natural(row, 0)?).unwrap_or_default();
            Ok((status, natural(row, 1)?))
        });
        let statuses = by_status.await?.into_iter().collect();
        let (pages, bytes, hosts_count) = all.first().copied().unwrap_or_default();
        Ok(Counts {
            pages,
            bytes,
            hosts,
            hosts_count,
            statuses,
            refusals,
        })
    }

    async fn rows<T>(
        &mut self,
        sql: &str,
        given: &[&(dyn ToSql + Sync)],
        row: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>, StoreError> {
        let Connection {
            client,
            place,
            timeout,
            ..
        } = &self.0;
        let rows = async {
            let rows = client.query(sql, given).await?;
            rows.iter().map(row).collect()
        };
        within(place, *timeout, rows).await
    }
}

const ALL_COUNTS: &str =
    "SELECT count(*), coalesce(sum(size), 0)::bigint, count(DISTINCT host) FROM crawl_pages";

fn natural(row: &Row, column: usize) -> Result<u64, Error> {
    let number: i64 = row.try_get(column)?;
    Ok(u64::try_from(number).unwrap_or_default())
}

fn small(row: &Row, column: usize) -> Result<u32, Error> {
    Ok(u32::try_from(natural(row, column)?).unwrap_or(u32::MAX))
}

/// A row of [`PAGE_COLUMNS`].
fn page(row: &Row) -> Result<(i64, PageRow), Error> {
    let url: String = row.try_get(1)?;
    let final_url: Option<String> = row.try_get(2)?;
    let page = PageRow {
        final_url: final_url.unwrap_or_else(|| url.clone()),
        url,
        host: row.try_get(3)?,
        depth: small(row, 4)?,
        from: row.try_get(5)?,
        status: u16::try_from(natural(row, 6)?).unwrap_or_default(),
        mime: row.try_get(7)?,
        charset: row.try_get(8)?,
        size: natural(row, 9)?,
        fetched_at: row.try_get(10)?,
        took_ms: natural(row, 11)?,
        node: row.try_get(12)?,
        title: row.try_get(13)?,
        language: row.try_get(14)?,
        description: row.try_get(15)?,
        hash: row.try_get(16)?,
        simhash: row.try_get(17)?,
        headers: row.try_get::<_, Option<Json>>(18)?.map(|json| json.0),
        fields: row.try_get::<_, Option<Json>>(19)?.map(|json| json.0),
        fetches: small(row, 20)?,
        text: None,
        body: None,
    };
    Ok((row.try_get(0)?, page))
}

/// A column of JSON, as text.
struct Json(String);

impl<'a> tokio_postgres::types::FromSql<'a> for Json {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(String::from_utf8(raw.to_vec())?))
    }

    fn accepts(kind: &tokio_postgres::types::Type) -> bool {
        *kind == tokio_postgres::types::Type::JSON
    }
}

fn page_with_text(row: &Row) -> Result<(i64, PageRow), Error> {
    let (number, mut page) = page(row)?;
    page.text = row.try_get(PAGE_COLUMNS_COUNT)?;
    Ok((number, page))
}

/// A row of [`REFUSAL_COLUMNS`].
fn refusal(row: &Row) -> Result<(i64, RefusalRow), Error> {
    let refusal = RefusalRow {
        url: row.try_get(1)?,
        host: row.try_get(2)?,
        stage: row.try_get(3)?,
        rule: row.try_get(4)?,
        reason: row.try_get(5)?,
        from: row.try_get(6)?,
        depth: small(row, 7)?,
        at: row.try_get(8)?,
        node: row.try_get(9)?,
    };
    Ok((row.try_get(0)?, refusal))
}
