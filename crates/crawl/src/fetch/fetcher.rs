//! A fetch from its first step to its last.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Incoming};
use hyper::header::LOCATION;
use hyper::http::response::Parts;
use tokio::sync::SemaphorePermit;
use url::{Position, Url};

use super::answer::{
    FetchRequest, Fetched, HttpVersion, Redirect, Timings, content_type, retry_after,
};
use super::body::Collector;
use super::connect::Connector;
use super::connection::{Carrier, One, Two};
use super::cookies::Jars;
use super::deadline::Deadline;
use super::error::{FetchError, Phase};
use super::head::{Form, More, Prepared};
use super::names::{Resolve, System};
use super::pool::{Host, Pool};
use super::settings::{Cookies, FetchSettings, SettingsError, host_and_port};

/// The body of a redirect is read up to here, so that the connection can be used again.
const UNWANTED_BYTES_MAX: usize = 64 << 10;
/// Under this key are the connections to the proxy, which serve all hosts.
const PROXY_KEY: &str = "proxy";

/// Fetches over HTTP. It keeps connections, so there should be one for everybody who has the same settings.
pub struct Fetcher {
    settings: FetchSettings,
    prepared: Prepared,
    connector: Connector,
    pool: Arc<Pool>,
    jars: Option<Jars>,
}

/// A connection for one request.
struct Lease<'h> {
    carrier: Carrier,
    /// Nobody else may have more connections to this host meanwhile.
    place: Option<SemaphorePermit<'h>>,
    is_reused: bool,
    connect: Option<Duration>,
}

/// What one step brought.
struct Step {
    head: Parts,
    body: Bytes,
    wire_bytes: usize,
    remote: SocketAddr,
    connect: Option<Duration>,
    first_byte: Duration,
}

/// An answer whose body has not come yet.
struct Begun<'h> {
    lease: Lease<'h>,
    response: Response<Incoming>,
    first_byte: Duration,
}

impl Fetcher {
    /// A fetcher that keeps to these settings.
    pub fn new(settings: FetchSettings) -> Result<Arc<Self>, SettingsError> {
        Self::with_resolver(settings, Arc::new(System))
    }

    /// One that asks somebody else for the addresses of names. They are checked all the same.
    pub fn with_resolver(
        settings: FetchSettings,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Arc<Self>, SettingsError> {
        settings.check()?;
        Ok(Arc::new(Self {
            prepared: Prepared::new(&settings)?,
            connector: Connector::new(&settings, resolve)?,
            pool: Pool::new(&settings),
            jars: (settings.cookies == Cookies::PerSite).then(Jars::default),
            settings,
        }))
    }

    /// What it keeps to.
    pub fn settings(&self) -> &FetchSettings {
        &self.settings
    }

    /// How many connections are open.
    pub fn connections_open(&self) -> usize {
        self.pool.open_count()
    }

    /// How many connections were opened since it was made.
    pub fn connections_opened(&self) -> u64 {
        self.pool.opened_count()
    }

    /// Fetches this and follows redirects. Whatever the status of the answer is, it is an answer.
    pub async fn fetch(&self, request: &FetchRequest) -> Result<Fetched, FetchError> {
        let begun = Instant::now();
        let timer = pin!(Deadline::timer(&self.settings));
        let mut deadline = Deadline::new(timer, &self.settings);
        let mut url = without_password(Cow::Borrowed(&request.url));
        let mut redirects = Vec::new();
        self.connector.guard().check(&url)?;
        loop {
            let is_first = redirects.is_empty();
            let step = self.step(&url, request, is_first, &mut deadline).await?;
            let jars = self.jars.as_ref();
            let is_changed = jars.is_some_and(|jars| jars.keep(&url, &step.head.headers));
            let Some(next) = self.next(&url, &step.head)? else {
                return Ok(fetched(step, url.into_owned(), redirects, begun));
            };
            redirects.push(Redirect {
                from: url.into_owned(),
                status: step.head.status.as_u16(),
            });
            self.check_redirect(&next, &redirects, request, is_changed)?;
            url = Cow::Owned(next);
        }
    }

    /// Where an answer redirects to.
    fn next(&self, url: &Url, head: &Parts) -> Result<Option<Url>, FetchError> {
        let is_redirect = matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(to) = head.headers.get(LOCATION) else {
            return Ok(None);
        };
        if !is_redirect || self.settings.redirects_max == 0 {
            return Ok(None);
        }
        let to = String::from_utf8_lossy(to.as_bytes());
        match url.join(&to) {
            Ok(next) => Ok(Some(without_password(Cow::Owned(next)).into_owned())),
            Err(error) => Err(FetchError::RedirectWrong {
                url: url.to_string(),
                to: to.into_owned(),
                reason: error.to_string(),
            }),
        }
    }

    fn check_redirect(
        &self,
        next: &Url,
        redirects: &[Redirect],
        request: &FetchRequest,
        cookies_changed: bool,
    ) -> Result<(), FetchError> {
        let last = redirects
            .last()
            .map_or(&request.url, |redirect| &redirect.from);
        let is_seen = redirects
            .iter()
            .any(|redirect| redirect.from[..Position::AfterQuery] == next[..Position::AfterQuery]);
        // A page may want its cookie before it answers, and asks the browser to come again.
        let is_loop = is_seen && !cookies_changed;
        if is_loop || (is_seen && redirects.len() > self.settings.redirects_max) {
            return Err(FetchError::RedirectLoop {
                url: last.to_string(),
                to: next.to_string(),
            });
        }
        if redirects.len() > self.settings.redirects_max {
            return Err(FetchError::TooManyRedirects {
                url: request.url.to_string(),
                redirects_max: self.settings.redirects_max,
            });
        }
        self.connector.guard().check(next)?;
        let checked = request.redirect_check.as_ref().map(|check| check(next));
        checked
            .unwrap_or(Ok(()))
            .map_err(|reason| FetchError::RedirectRefused {
                url: last.to_string(),
                to: next.to_string(),
                reason,
            })
    }

    /// One request and its answer.
    async fn step(
        &self,
        url: &Url,
        asked: &FetchRequest,
        is_first: bool,
        deadline: &mut Deadline<'_>,
    ) -> Result<Step, FetchError> {
        let waited = deadline.within(Phase::FreeConnection, url, self.pool.under_way.acquire());
        let _place = waited.await?.map_err(|_| closed(url))?;
        let key = match self.connector.is_sent_to_proxy(url) {
            true => PROXY_KEY,
            false => &url[..Position::BeforePath],
        };
        let host = self.pool.host(key);
        let begun = self.begin(&host, url, asked, is_first, deadline).await?;
        self.read(&host, url, begun, deadline).await
    }

    /// Sends a request and waits for the head of the answer. If a connection that was kept turns out to be closed, and nothing of
    /// an answer came, it is sent once more on a fresh one.
    async fn begin<'h>(
        &self,
        host: &'h Host,
        url: &Url,
        asked: &FetchRequest,
        is_first: bool,
        deadline: &mut Deadline<'_>,
    ) -> Result<Begun<'h>, FetchError> {
        let mut lease = self.lease(host, url, deadline).await?;
        loop {
            let cookies = self.jars.as_ref().and_then(|jars| jars.header(url));
            let request = self.prepared.request(
                url,
                self.form(url, &lease.carrier),
                asked,
                More {
                    is_first,
                    cookies: cookies.as_deref(),
                    proxy_authorization: match self.connector.is_sent_to_proxy(url) {
                        true => self.connector.proxy_authorization(),
                        false => None,
                    },
                },
            )?;
            let sent = Instant::now();
            let before = lease.carrier.received();
            let sending = lease.carrier.send(request);
            let answer = deadline.within(Phase::FirstByte, url, sending).await;
            let error = match answer {
                Ok(Ok(response)) => {
                    return Ok(Begun {
                        lease,
                        response,
                        first_byte: sent.elapsed(),
                    });
                }
                Ok(Err(error)) => error,
                Err(late) => {
                    forget(host, &lease.carrier);
                    return Err(late);
                }
            };
            forget(host, &lease.carrier);
            let is_silent = lease.carrier.received() == before && !error.is_parse();
            match lease.is_reused && is_silent {
                true => lease = self.open(host, url, lease.place.take(), deadline).await?,
                false => return Err(head_error(url, &error, &self.settings)),
            }
        }
    }

    fn form(&self, url: &Url, carrier: &Carrier) -> Form {
        match carrier.is_two() {
            true => Form::Two,
            false if self.connector.is_sent_to_proxy(url) => Form::Whole,
            false => Form::Path,
        }
    }

    /// A connection, if possible one that is there.
    async fn lease<'h>(
        &self,
        host: &'h Host,
        url: &Url,
        deadline: &mut Deadline<'_>,
    ) -> Result<Lease<'h>, FetchError> {
        if let Some(two) = host.two() {
            return Ok(Lease::reused(Carrier::Two(two), None));
        }
        let waited = deadline.within(Phase::FreeConnection, url, host.places.acquire());
        let place = waited.await?.map_err(|_| closed(url))?;
        if let Some(one) = host.take_idle() {
            return Ok(Lease::reused(Carrier::One(one), Some(place)));
        }
        self.open(host, url, Some(place), deadline).await
    }

    /// A fresh connection, or one for many requests that somebody else opened meanwhile.
    async fn open<'h>(
        &self,
        host: &'h Host,
        url: &Url,
        place: Option<SemaphorePermit<'h>>,
        deadline: &mut Deadline<'_>,
    ) -> Result<Lease<'h>, FetchError> {
        let mut finding_out = None;
        if self.settings.http2 && url.scheme() == "https" && !host.speaks_one() {
            let waited = deadline.within(Phase::FreeConnection, url, host.finding_out.acquire());
            let permit = waited.await?.map_err(|_| closed(url))?;
            if let Some(two) = host.two() {
                return Ok(Lease::reused(Carrier::Two(two), None));
            }
            finding_out = (!host.speaks_one()).then_some(permit);
        }
        let begun = Instant::now();
        // On the heap: few fetches get here, and all of them would have to carry it.
        let connecting = Box::pin(self.connect(host, url));
        let carrier = deadline.within(Phase::Connect, url, connecting).await??;
        drop(finding_out);
        Ok(Lease {
            place: place.filter(|_| !carrier.is_two()),
            carrier,
            is_reused: false,
            connect: Some(begun.elapsed()),
        })
    }

    async fn connect(&self, host: &Host, url: &Url) -> Result<Carrier, FetchError> {
        let open = self.pool.open().await;
        let connected = self.connector.connect(url).await?;
        let failed = |error: hyper::Error| FetchError::Connect {
            host: host_and_port(url).to_owned(),
            reason: explained(&error),
        };
        if !connected.is_two {
            host.note_one();
            let one = One::begin(connected, open, &self.settings).await;
            return Ok(Carrier::One(Box::new(one.map_err(failed)?)));
        }
        let two = Two::begin(connected, open, &self.settings).await;
        let two = Arc::new(two.map_err(failed)?);
        host.keep_two(two.clone());
        Ok(Carrier::Two(two))
    }

    /// Reads the body. The connection is kept if all of it came.
    async fn read(
        &self,
        host: &Host,
        url: &Url,
        begun: Begun<'_>,
        deadline: &mut Deadline<'_>,
    ) -> Result<Step, FetchError> {
        let Begun {
            mut lease,
            response,
            first_byte,
        } = begun;
        let (head, mut incoming) = response.into_parts();
        let remote = lease.carrier.remote();
        let is_wanted = self.next(url, &head)?.is_none();
        let (body, wire_bytes, is_whole) = match is_wanted {
            true => {
                let length = incoming.size_hint().exact();
                let mut collector = Collector::new(&head.headers, length, &self.settings, url)?;
                while let Some(part) = part(&mut lease, &mut incoming, url, deadline).await? {
                    collector.push(&part)?;
                }
                let (body, wire_bytes) = collector.finish()?;
                (body, wire_bytes, true)
            }
            false => {
                let is_whole = skip(&mut lease, &mut incoming, url, deadline).await;
                (Bytes::new(), 0, is_whole)
            }
        };
        if let (Carrier::One(one), true) = (lease.carrier, is_whole) {
            self.pool.give_back(host, one);
        }
        Ok(Step {
            head,
            body,
            wire_bytes,
            remote,
            connect: lease.connect,
            first_byte,
        })
    }
}

impl<'h> Lease<'h> {
    fn reused(carrier: Carrier, place: Option<SemaphorePermit<'h>>) -> Self {
        Self {
            carrier,
            place,
            is_reused: true,
            connect: None,
        }
    }
}

/// The next part of a body; none at its end.
async fn part(
    lease: &mut Lease<'_>,
    body: &mut Incoming,
    url: &Url,
    deadline: &mut Deadline<'_>,
) -> Result<Option<Bytes>, FetchError> {
    loop {
        let frame = lease.carrier.frame(body);
        let frame = deadline.within(Phase::BetweenBytes, url, frame).await?;
        match frame.map(|frame| frame.map(|frame| frame.into_data())) {
            None => return Ok(None),
            Some(Ok(Ok(data))) => return Ok(Some(data)),
            // Headers behind the body: nobody needs them.
            Some(Ok(Err(_))) => {}
            Some(Err(error)) => {
                return Err(FetchError::BrokenBody {
                    url: url.to_string(),
                    reason: explained(&error),
                });
            }
        }
    }
}

/// Reads a body that nobody wants; says whether it came to its end.
async fn skip(
    lease: &mut Lease<'_>,
    body: &mut Incoming,
    url: &Url,
    deadline: &mut Deadline<'_>,
) -> bool {
    let mut bytes = 0;
    while bytes <= UNWANTED_BYTES_MAX {
        match part(lease, body, url, deadline).await {
            Ok(Some(part)) => bytes += part.len(),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
    false
}

fn fetched(step: Step, final_url: Url, redirects: Vec<Redirect>, begun: Instant) -> Fetched {
    let (mime, charset) = content_type(&step.head.headers);
    Fetched {
        status: step.head.status.as_u16(),
        final_url,
        redirects,
        mime,
        charset,
        retry_after: retry_after(&step.head.headers),
        timings: Timings {
            connect: step.connect,
            first_byte: step.first_byte,
            whole: begun.elapsed(),
        },
        remote: step.remote,
        wire_bytes: step.wire_bytes,
        version: HttpVersion::of(step.head.version),
        headers: step.head.headers,
        body: step.body,
    }
}

/// Names and passwords in URLs are never sent: whoever wrote the link did not mean us.
fn without_password(url: Cow<'_, Url>) -> Cow<'_, Url> {
    if url.username().is_empty() && url.password().is_none() {
        return url;
    }
    let mut url = url.into_owned();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Cow::Owned(url)
}

/// A connection for many requests that failed one of them is not used for further ones.
fn forget(host: &Host, carrier: &Carrier) {
    if let Carrier::Two(two) = carrier {
        host.forget_two(two);
    }
}

fn head_error(url: &Url, error: &hyper::Error, settings: &FetchSettings) -> FetchError {
    let url = url.to_string();
    let reason = explained(error);
    if error.is_parse_too_large() {
        let bytes_max = settings.header_bytes_max;
        return FetchError::HeadTooLarge { url, bytes_max };
    }
    match error.is_parse() {
        true => FetchError::Protocol { url, reason },
        false => FetchError::Closed { url, reason },
    }
}

fn closed(url: &Url) -> FetchError {
    FetchError::Closed {
        url: url.to_string(),
        reason: "the fetcher is being closed".to_owned(),
    }
}

/// What an error says, with what is behind it.
fn explained(error: &hyper::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
