//! Crawls of sites on this machine, with our crawler and with those of others.
//!
//! [`site`] makes pages, which [`crate::peers::nginx::Nginx`] serves; [`ours`], [`scrapy`] and [`spider`] crawl them. Whoever
//! leaves out a page, or asks for one that is closed, has not crawled it: that is an error and not a figure. [`shared`] is a crawl on two
//! nodes, [`known`] one that knows very many URLs, [`workers`] looks at the stages meanwhile; [`content`] measures what is done
//! with each page, alone.

pub mod content;
pub mod known;
pub mod ours;
pub mod plot;
pub mod scrapy;
pub mod served;
pub mod shared;
pub mod site;
pub mod spider;
pub mod workers;

use std::time::Duration;

/// How a crawl went.
#[derive(Debug, Clone, Copy)]
pub struct Crawled {
    /// How many pages it had.
    pub pages: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What the crawler used of processors for it, all threads together.
    pub processor: Duration,
}

impl Crawled {
    /// Pages in a second.
    pub fn rate(&self) -> f64 {
        self.pages as f64 / self.elapsed.as_secs_f64()
    }

    /// Milliseconds of a processor for each page.
    pub fn processor_ms(&self) -> f64 {
        self.processor.as_secs_f64() * 1_000.0 / self.pages as f64
    }

    /// From the words `pages seconds processor-seconds`.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let pages = words.next()?.parse().ok()?;
        let mut seconds = || Duration::try_from_secs_f64(words.next()?.parse().ok()?).ok();
        Some(Self {
            pages,
            elapsed: seconds()?,
            processor: seconds()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_crawlers_print_is_read() {
        let crawled = Crawled::read("1000 2.0 0.5\n").expect("it is right");
        assert_eq!((crawled.rate(), crawled.processor_ms()), (500.0, 0.5));
        assert!(Crawled::read("1000 2.0").is_none());
    }
}
