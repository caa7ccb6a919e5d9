//! What can go wrong with a store.

/// Why a store cannot be used. No message has a password in it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What was named is no place for a store.
    #[error(
        "{0} is no place for a store: {1}; name a folder, or postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    NoPlace(String, &'static str),
    /// There is nothing at that place.
    #[error(
        "there is no store at {0}: crawl with this place first, or look for where the crawl was told to store"
    )]
    Missing(String),
    /// What is there was made by something else.
    #[error("{0} is not a store of a crawl: choose another place")]
    Foreign(String),
    /// What is there cannot be read any more.
    #[error(
        "the store {place} is damaged: {problem}. Move it away and crawl anew, or stop the crawl and save what can be read: \
         sqlite3 crawl.db .recover | sqlite3 saved.db"
    )]
    Damaged {
        /// The store.
        place: String,
        /// What was found.
        problem: String,
    },
    /// What is there was made by a program that is newer than this one.
    #[error(
        "the store {place} has the schema {found}, and this program knows schemas up to {known}: use a newer Hivewire"
    )]
    Newer {
        /// The store.
        place: String,
        /// The version of its schema.
        found: i64,
        /// The latest version that is known.
        known: i64,
    },
    /// The store has no full-text index.
    #[error(
        "the store {0} has no full-text index: crawl once more with search = true, which builds it for what is there, too"
    )]
    NoIndex(String),
    /// A body is longer than asked for.
    #[error("the body of {url} has {bytes} bytes, which is more than {bytes_max}")]
    TooLong {
        /// The page.
        url: String,
        /// How long its body is.
        bytes: u64,
        /// How long it may be.
        bytes_max: usize,
    },
    /// The text that says where a listing goes on is not one of ours.
    #[error(
        "{0:?} does not say where a listing goes on: take what the listing before gave as next"
    )]
    Cursor(String),
    /// The database did not answer in time.
    #[error(
        "the store {place} did not answer within {ms} ms: look whether it is overloaded, or allow more time"
    )]
    Slow {
        /// The store.
        place: String,
        /// How long it was waited for.
        ms: u128,
    },
    /// The database says so.
    #[error("the store {place} cannot be used: {problem}")]
    Unusable {
        /// The store.
        place: String,
        /// What it said.
        problem: String,
    },
    /// What was exported could not be written.
    #[error("the export cannot be written: {0}")]
    Export(#[from] std::io::Error),
}
