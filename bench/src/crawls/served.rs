//! A site that is served, and whether all of it was crawled.

use std::time::Duration;

use tempfile::TempDir;

use super::{Crawled, site};
use crate::peers::nginx::Nginx;
use crate::peers::{PeerError, Result, data_directory};

/// Pages of one or more hosts on this machine.
#[derive(Debug)]
pub struct Served {
    nginx: Nginx,
    _folder: TempDir,
    pages: u64,
}

impl Served {
    /// Serves so many pages on each of so many hosts; each answer takes this time.
    pub fn start(pages: u64, hosts: u8, delay: Duration) -> Result<Self> {
        let folder = data_directory("site")?;
        site::write(pages, folder.path())
            .map_err(|error| PeerError::system("write a site", error))?;
        Ok(Self {
            nginx: Nginx::start(folder.path(), hosts, delay)?,
            _folder: folder,
            pages,
        })
    }

    /// How many pages each host has.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Where each host begins.
    pub fn urls(&self) -> Vec<String> {
        let hosts = self.nginx.hosts().iter();
        hosts.map(|host| format!("http://{host}/")).collect()
    }

    /// Lets somebody crawl it, and sees to it that they had every page once and none that is closed.
    pub fn crawled_by(
        &self,
        name: &str,
        crawl: impl FnOnce(&Self) -> Result<Crawled>,
    ) -> Result<Crawled> {
        self.nginx.forget()?;
        let crawled = crawl(self)?;
        let sent = self.nginx.sent()?;
        let closed = sent.pages.keys().filter(|page| page.contains("/closed/"));
        let (closed, wanted) = (closed.count(), self.pages * self.nginx.hosts().len() as u64);
        // Some ask twice for a page now and then, which is their own loss.
        if sent.pages.len() as u64 == wanted && closed == 0 {
            return Ok(Crawled {
                pages: wanted,
                ..crawled
            });
        }
        Err(PeerError::UnexpectedAnswer {
            peer: name.to_owned(),
            answer: format!(
                "of {wanted} pages it asked for {}, {closed} of them closed, and says that it had {}",
                sent.pages.len(),
                crawled.pages
            ),
        })
    }
}
