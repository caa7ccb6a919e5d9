//! Fetching over HTTP: fast, bounded, and without being led astray.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use crawl::fetch::{FetchRequest, FetchSettings, Fetcher};
//!
//! let fetcher = Fetcher::new(FetchSettings::default())?;
//! let request = FetchRequest::new("https://example.com/".parse()?);
//! let page = fetcher.fetch(&request).await?;
//! println!("{} {:?} {} bytes", page.status, page.mime, page.body.len());
//! # Ok(())
//! # }
//! ```
//!
//! Bytes, time, redirects and connections are limited by [`FetchSettings`]. Only addresses of the public internet are reached, unless
//! the settings allow others; each redirect is checked like the first step. What it deliberately does not do: it knows no politeness and
//! repeats nothing that failed, but for a connection that was kept and that the server had closed meanwhile.

mod answer;
mod body;
mod connect;
mod connection;
mod cookies;
mod deadline;
mod decode;
mod error;
mod fetcher;
mod guard;
mod head;
mod names;
mod pool;
mod settings;
mod stream;
mod tls;

pub use answer::{FetchRequest, Fetched, HttpVersion, Redirect, RedirectCheck, Timings};
pub use error::{FetchError, FetchErrorKind, Phase};
pub use fetcher::Fetcher;
pub use names::Resolve;
pub use settings::{Cookies, FetchSettings, Proxy, SettingsError};
