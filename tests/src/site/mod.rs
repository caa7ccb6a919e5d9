//! A site for crawlers to be tested with: clean pages, each of which can be reached, and whatever goes wrong on the web
//! beside them ([`traps`]).
//!
//! [`Site`] serves it on loopback. Its hosts are addresses, 127.0.0.1 and those that follow, all with the same port, so
//! that no name has to be known to the machine. Everything is made from a seed, and every request is written down in
//! the [`Log`].
//!
//! ```no_run
//! use hivewire_tests::site::Site;
//!
//! let site = Site::options().pages(100).hosts(3).start()?;
//! // A crawler is sent to site.url("/") here.
//! assert!(site.log().counts().values().all(|times| *times == 1));
//! # Ok::<(), std::io::Error>(())
//! ```

mod exchange;
pub mod graph;
mod log;
pub mod traps;
mod untrusted;

use std::collections::BTreeSet;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub use exchange::{Reply, Request, Then};
pub use log::{Log, ROBOTS, Visit};
pub use untrusted::Untrusted;

use self::traps::{State, TRAPS};

/// How often another port is tried, should a host's address be in use there.
const START_ATTEMPTS_MAX: u32 = 20;
/// As many as there are addresses that end in a number of their own.
const HOSTS_MAX: usize = 250;

/// What a site is like.
#[derive(Clone, Debug)]
pub struct SiteOptions {
    seed: u64,
    pages: usize,
    hosts: usize,
    answer_delay: Duration,
    crawl_delay: Option<Duration>,
    traps: bool,
    sitemap: bool,
    close_every: Option<u32>,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            seed: 7,
            pages: 50,
            hosts: 1,
            answer_delay: Duration::ZERO,
            crawl_delay: None,
            traps: false,
            sitemap: false,
            close_every: None,
        }
    }
}

impl SiteOptions {
    /// Another seed gives other links and texts.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many clean pages each host has.
    #[must_use]
    pub fn pages(mut self, pages: usize) -> Self {
        self.pages = pages.max(1);
        self
    }

    /// How many hosts there are.
    #[must_use]
    pub fn hosts(mut self, hosts: usize) -> Self {
        self.hosts = hosts.clamp(1, HOSTS_MAX);
        self
    }

    /// How long each answer takes.
    #[must_use]
    pub fn answer_delay(mut self, delay: Duration) -> Self {
        self.answer_delay = delay;
        self
    }

    /// What `robots.txt` asks crawlers to wait between two requests.
    #[must_use]
    pub fn crawl_delay(mut self, delay: Duration) -> Self {
        self.crawl_delay = Some(delay);
        self
    }

    /// The first page links to all that goes wrong on the web.
    #[must_use]
    pub fn traps(mut self) -> Self {
        self.traps = true;
        self
    }

    /// `robots.txt` names a sitemap, which lists all pages and one that no page links to.
    #[must_use]
    pub fn sitemap(mut self) -> Self {
        self.sitemap = true;
        self
    }

    /// Closes each connection after so many answers and tells nobody.
    #[must_use]
    pub fn close_every(mut self, answers: u32) -> Self {
        self.close_every = Some(answers);
        self
    }

    /// Begins to serve it.
    pub fn start(self) -> io::Result<Site> {
        let listeners = listen(self.hosts)?;
        let hosts = listeners
            .iter()
            .map(|listener| Ok(listener.local_addr()?.to_string()))
            .collect::<io::Result<Vec<String>>>()?;
        let shared = Arc::new(Shared {
            options: self,
            hosts,
            log: Log::default(),
            traps: State::default(),
            stop: AtomicBool::new(false),
        });
        let threads = listeners.into_iter().enumerate().map(|(host, listener)| {
            let shared = shared.clone();
            std::thread::spawn(move || accept(&shared, host, &listener))
        });
        Ok(Site {
            threads: threads.collect(),
            shared,
        })
    }
}

/// All hosts on one port.
fn listen(hosts: usize) -> io::Result<Vec<TcpListener>> {
    let mut problem = io::ErrorKind::AddrInUse.into();
    for _ in 0..START_ATTEMPTS_MAX {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = first.local_addr()?.port();
        let others =
            (2..=hosts as u8).map(|last| TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)));
        match others.collect::<io::Result<Vec<_>>>() {
            Ok(others) => return Ok(std::iter::once(first).chain(others).collect()),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// A site that is served until it is dropped.
pub struct Site {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    options: SiteOptions,
    hosts: Vec<String>,
    log: Log,
    traps: State,
    stop: AtomicBool,
}

impl Site {
    /// What it is to be like.
    pub fn options() -> SiteOptions {
        SiteOptions::default()
    }

    /// Its hosts, each with the port.
    pub fn hosts(&self) -> &[String] {
        &self.shared.hosts
    }

    /// The URL of something on the first host.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.shared.hosts[0])
    }

    /// What was asked for.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// All clean pages that may be read, as the log has them.
    pub fn clean_pages(&self) -> BTreeSet<String> {
        let Shared { hosts, options, .. } = &*self.shared;
        let pages = hosts.iter().flat_map(|host| {
            let numbered = (0..options.pages).map(graph::path);
            let listed = [graph::SITEMAP, graph::LISTED]
                .into_iter()
                .filter(|_| options.sitemap);
            let others = listed.chain([graph::OPENED]).map(str::to_owned);
            let all = numbered.chain(others);
            all.map(move |path| format!("{host}{path}"))
        });
        pages.collect()
    }

    /// Clean pages that nobody asked for.
    pub fn missing(&self) -> Vec<String> {
        let counts = self.log().counts();
        let mut pages = self.clean_pages();
        pages.retain(|page| !counts.contains_key(page));
        pages.into_iter().collect()
    }

    /// Clean pages that were asked for more than once.
    pub fn repeated(&self) -> Vec<String> {
        let pages = self.clean_pages();
        let counts = self.log().counts().into_iter();
        let repeated = counts.filter(|(page, times)| *times > 1 && pages.contains(page));
        repeated.map(|(page, _)| page).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for (host, thread) in self.shared.hosts.iter().zip(self.threads.drain(..)) {
            // Wakes the one who waits for connections.
            if let Ok(address) = host.parse::<SocketAddr>() {
                let _ = TcpStream::connect(address);
            }
            let _ = thread.join();
        }
    }
}

/// Each connection has a thread of its own, which ends with it.
fn accept(shared: &Arc<Shared>, host: usize, listener: &TcpListener) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        // Clients that go away early are what traps are about.
        std::thread::spawn(move || drop(serve(&shared, host, stream)));
    }
}

fn serve(shared: &Shared, host: usize, mut stream: TcpStream) -> io::Result<()> {
    exchange::prepare(&stream)?;
    let port = stream.peer_addr()?.port();
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut answers = 0;
    while let Some(request) = Request::read(&mut reader)? {
        if shared.stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        let visit = shared.log.begin(&request.host, &request.path, port);
        if request.path != ROBOTS {
            std::thread::sleep(shared.options.answer_delay);
        }
        let then = answer(shared, host, &request, &mut Reply::new(&mut stream));
        shared.log.end(visit);
        answers += 1;
        let is_last = shared
            .options
            .close_every
            .is_some_and(|every| answers >= every);
        let is_last = is_last || request.header("connection") == Some("close");
        if then? == Then::Close || is_last {
            return Ok(());
        }
    }
    Ok(())
}

fn answer(
    shared: &Shared,
    host: usize,
    request: &Request,
    reply: &mut Reply<'_>,
) -> io::Result<Then> {
    let Shared { options, hosts, .. } = shared;
    let plain = [("Content-Type", "text/plain")];
    match request.path.as_str() {
        ROBOTS => {
            let robots = graph::robots(options, &hosts[host]);
            return reply.whole(200, &plain, robots.as_bytes());
        }
        graph::SITEMAP if options.sitemap => {
            let sitemap = graph::sitemap(options, &hosts[host]);
            return reply.whole(
                200,
                &[("Content-Type", "application/xml")],
                sitemap.as_bytes(),
            );
        }
        "/traps" if options.traps => return reply.html(traps::index()),
        graph::LISTED if options.sitemap => {
            return reply.html("<title>Listed</title><p>Only a list leads here.</p>");
        }
        graph::OPENED => return reply.html("<title>Open</title><p>This may be read.</p>"),
        path if path.starts_with(graph::CLOSED) => {
            return reply.html("<title>Closed</title><p>Nobody may read this.</p>");
        }
        _ => {}
    }
    let trap = TRAPS.iter().filter(|_| options.traps);
    if let Some(trap) = trap.clone().find(|trap| trap.has(&request.path)) {
        return (trap.answer)(&shared.traps, hosts, request, reply);
    }
    match graph::number(&request.path) {
        Some(number) if number < options.pages => {
            reply.html(graph::page(options, hosts, host, number))
        }
        _ => reply.whole(404, &plain, b"There is no such page.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    fn get(site: &Site, host: usize, path: &str) -> http::Response {
        let address = site.hosts()[host].parse().unwrap();
        http::request(address, "GET", path, &[], b"").unwrap()
    }

    #[test]
    fn pages_are_served_and_written_down() {
        let site = Site::options().pages(10).hosts(3).start().unwrap();
        assert_eq!(get(&site, 0, "/robots.txt").status, 200);
        for host in 0..3 {
            assert!(get(&site, host, "/page/9").text().contains("Page 9"));
        }
        assert_eq!(get(&site, 1, "/page/10").status, 404);
        let log = site.log();
        assert_eq!((log.pages(), log.visits().len()), (4, 5));
        assert_eq!(log.hosts().len(), 3);
        assert!(log.visits().iter().all(|visit| visit.ended.is_some()));
        // Ten pages of three hosts and one that is opened again, less three that were asked for.
        assert_eq!(site.missing().len(), 33 - 3);
        assert!(site.repeated().is_empty());
        get(&site, 0, "/page/9");
        assert_eq!(site.repeated(), [format!("{}/page/9", site.hosts()[0])]);
        assert_eq!(log.most_at_once(&site.hosts()[0]), 1);
    }
}
