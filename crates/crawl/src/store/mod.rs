//! What a crawl keeps: pages, and what was refused with the reason.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let folder = tempfile::tempdir().unwrap();
//! use crawl::store::{PageRow, Place, Reader, Settings, Store};
//!
//! let place: Place = folder.path().to_str().unwrap().parse()?;
//! let mut store = Store::open(&place, Settings::default()).await?;
//! let page = PageRow { url: "https://example.com/".to_owned(), status: 200, ..PageRow::default() };
//! store.write(&[page], &[]).await?;
//!
//! let mut reader = Reader::open(&place).await?;
//! assert_eq!(reader.page("https://example.com/").await?.unwrap().status, 200);
//! # Ok::<(), crawl::store::StoreError>(())
//! # }).unwrap();
//! ```
//!
//! A store is a folder with an SQLite database, or a PostgreSQL database. Writers write batches, each in one transaction that
//! is on disk when [`Store::write`] returns. Readers never write, and read beside running writers.
//!
//! What it deliberately does not do: it normalises no URL. Whoever writes or asks does.

mod content;
mod error;
mod export;
mod place;
mod postgres;
mod query;
mod rows;
mod sqlite;
mod why;

use std::time::Duration;

pub use content::BODY_BYTES_MAX;
pub use error::StoreError;
pub use export::{ExportForm, ExportOf, safe_cell};
pub use place::Place;
pub use query::{
    Counts, Hit, HostCounts, Listing, Order, PageFilter, SnippetPart, StatusRange, StatusRangeError,
};
pub use rows::{PageRow, RefusalRow};
pub use why::Why;

/// How a store is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether bodies are kept. Without them there is what was made from them, such as the text.
    pub keeps_bodies: bool,
    /// Whether there is to be a full-text index. One that is there already is kept up in any case.
    pub search: bool,
    /// How long a database may take to answer.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keeps_bodies: true,
            search: false,
            timeout: Duration::from_secs(30),
        }
    }
}

/// A store that is written.
pub struct Store(Writing);

enum Writing {
    Sqlite(Box<sqlite::Writer>),
    Postgres(Box<postgres::Writer>),
}

impl Store {
    /// Opens the store at this place for writing. It is made if need be.
    pub async fn open(place: &Place, settings: Settings) -> Result<Self, StoreError> {
        Ok(Self(match place {
            Place::Folder(folder) => Writing::Sqlite(Box::new(blocking(|| {
                sqlite::Writer::open(folder, settings)
            })?)),
            Place::Postgres(server) => {
                Writing::Postgres(Box::new(postgres::Writer::open(server, settings).await?))
            }
        }))
    }

    /// Writes all of it in one transaction. A page replaces the one that has the same URL, and so does a refusal; whatever is
    /// written twice is there once.
    pub async fn write(
        &mut self,
        pages: &[PageRow],
        refusals: &[RefusalRow],
    ) -> Result<(), StoreError> {
        if pages.is_empty() && refusals.is_empty() {
            return Ok(());
        }
        match &mut self.0 {
            Writing::Sqlite(writer) => blocking(|| writer.write(pages, refusals)),
            Writing::Postgres(writer) => writer.write(pages, refusals).await,
        }
    }
}

/// A store that is read.
pub struct Reader(Reading);

enum Reading {
    Sqlite(Box<sqlite::Reader>),
    Postgres(Box<postgres::Reader>),
}

/// How long a database may take to answer a question.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

impl Reader {
    /// Opens the store at this place for reading. It has to be there.
    pub async fn open(place: &Place) -> Result<Self, StoreError> {
        Ok(Self(match place {
            Place::Folder(folder) => {
                Reading::Sqlite(Box::new(blocking(|| sqlite::Reader::open(folder))?))
            }
            Place::Postgres(server) => Reading::Postgres(Box::new(
                postgres::Reader::open(server, READ_TIMEOUT).await?,
            )),
        }))
    }

    /// The page of this URL, with its text and without its body.
    pub async fn page(&mut self, url: &str) -> Result<Option<PageRow>, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.page(url)),
            Reading::Postgres(reader) => reader.page(url).await,
        }
    }

    /// The latest page whose redirects ended at this URL, with its text and without its body.
    pub async fn page_ending_at(&mut self, url: &str) -> Result<Option<PageRow>, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.page_ending_at(url)),
            Reading::Postgres(reader) => reader.page_ending_at(url).await,
        }
    }

    /// The body of the page of this URL, if it was kept. One that is longer than this is an error.
    pub async fn body(
        &mut self,
        url: &str,
        body_bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let kept = match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.body(url))?,
            Reading::Postgres(reader) => reader.body(url).await?,
        };
        kept.map(|kept| content::body_of(&kept, url, body_bytes_max))
            .transpose()
    }

    /// What was refused under this URL.
    pub async fn refusal(&mut self, url: &str) -> Result<Option<RefusalRow>, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.refusal(url)),
            Reading::Postgres(reader) => reader.refusal(url).await,
        }
    }

    /// Pages that fit, without text and body, and where the next ones begin.
    pub async fn pages(&mut self, filter: &PageFilter) -> Result<Listing, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.pages(filter)),
            Reading::Postgres(reader) => reader.pages(filter).await,
        }
    }

    /// Pages whose title or text has these words, the best first. `"words in quotes"` stand together, `-word` must not be there,
    /// `or` gives a choice. The store needs its full-text index.
    pub async fn search(&mut self, words: &str, hits_max: usize) -> Result<Vec<Hit>, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.search(words, hits_max)),
            Reading::Postgres(reader) => reader.search(words, hits_max).await,
        }
    }

    /// How much there is.
    pub async fn counts(&mut self) -> Result<Counts, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.counts()),
            Reading::Postgres(reader) => reader.counts().await,
        }
    }

    /// Pages with text after the one with this number, in the order in which they were first written.
    async fn pages_after(
        &mut self,
        number: i64,
        rows_max: usize,
    ) -> Result<Vec<(i64, PageRow)>, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.pages_after(number, rows_max)),
            Reading::Postgres(reader) => reader.pages_after(number, rows_max).await,
        }
    }

    /// Refusals after the one with this number, in the order in which they were first written.
    async fn refusals_after(
        &mut self,
        number: i64,
        rows_max: usize,
    ) -> Result<Vec<(i64, RefusalRow)>, StoreError> {
        match &mut self.0 {
            Reading::Sqlite(reader) => blocking(|| reader.refusals_after(number, rows_max)),
            Reading::Postgres(reader) => reader.refusals_after(number, rows_max).await,
        }
    }
}

/// Does what waits for the disk. Where other threads can go on with what this one would have done, they are let.
fn blocking<T>(act: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(act),
        _ => act(),
    }
}
