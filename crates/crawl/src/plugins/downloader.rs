//! `downloader`: asks servers for pages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use flows::plugins::author::{OUT, Plugin, REFUSED};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event, Record};
use kernel::StageAddress;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use url::Url;

use super::fetchers::{self, Fetchers};
use super::page::{host_of, resolve};
use super::urls::{self, REDIRECTS, Urls};
use crate::fetch::{FetchError, FetchRequest, FetchSettings, Fetched, Fetcher};
use crate::pace::retry_after;
use crate::visit::{Outcome, Visit};

/// Parameters of `downloader`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How pages are fetched: limits of size and time, who asks, proxies, cookies.
    #[serde(default)]
    fetch: FetchSettings,
    /// How many requests this stage makes in a minute on each node; without it, as many as come.
    requests_per_minute: Option<u32>,
    /// Answers with these statuses are asked for again, if there is a frontier that keeps the URL.
    #[serde(default = "retry_statuses")]
    retry_statuses: Vec<u16>,
    /// Whether redirects are followed here. Usually they come out at `redirects` instead, so that filters, robots.txt and the pace
    /// of the other host hold for them, too.
    #[serde(default)]
    follow_redirects: bool,
}

fn retry_statuses() -> Vec<u16> {
    vec![429, 500, 502, 503, 504]
}

pub(super) struct Downloader {
    parameters: Parameters,
    fetcher: Arc<Fetcher>,
    meter: Option<Arc<Meter>>,
    node: String,
}

/// When the next request of a stage may start on this node.
struct Meter(Mutex<Instant>);

/// When a request starts.
enum Start {
    Now,
    At(Instant),
}

#[derive(Default)]
struct Meters(Mutex<HashMap<StageAddress, Arc<Meter>>>);

/// How many requests one worker makes at a time, if it gets so many events at once.
const AT_ONCE_MAX: usize = 64;
const REQUESTS_PER_MINUTE_MAX: u32 = 6_000_000;
const MINUTE: Duration = Duration::from_secs(60);
/// How long a worker waits for the time of a request.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Plugin for Downloader {
    const ID: &'static str = "downloader";
    const DESCRIPTION: &'static str = "Fetches pages over HTTP.\n\n\
        A worker fetches as many pages at a time as it gets events at once; with `batch_messages_max = 1` each worker is a connection. What fails, or is \
        answered with 429 or 503, is left to the frontier, which tries again later and leaves the host alone as long as that asks for. Private addresses are refused unless \
        `fetch.allow_private` is set.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            OUT,
            "Pages: `url`, `final_url`, `host`, `depth`, `from`, `status`, `mime`, `charset`, `size`, `headers`, `fetched_at`, `took_ms`, `node`, `hash`, and the body beside them.",
        ),
        (
            REDIRECTS,
            "Where redirects lead, as URLs, unless they are followed here.",
        ),
        (
            REFUSED,
            "What could not be fetched, with `rule` and `reason`; also what was redirected.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "At most a hundred requests a minute, small pages only",
            r#"{"requests_per_minute": 100, "fetch": {"body_bytes_max": 1000000}}"#,
        ),
        (
            "A server of one's own",
            r#"{"fetch": {"allow_private": true}, "follow_redirects": true}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let mut settings = parameters.fetch.clone();
        if !parameters.follow_redirects {
            settings.redirects_max = 0;
        }
        let fetcher = Fetchers::of(environment).get(&settings)?;
        let meter = parameters
            .requests_per_minute
            .and(environment.stage.as_ref());
        let meters = environment.shared.get_or_make(Meters::default);
        let meter = meter.map(|stage| {
            let mut meters = meters.0.lock();
            let new = || Arc::new(Meter(Mutex::new(Instant::now())));
            meters.entry(stage.clone()).or_insert_with(new).clone()
        });
        Ok(Self {
            parameters,
            fetcher,
            meter,
            node: environment.node.clone(),
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    if let Some(requests) = parameters.requests_per_minute
        && !(1..=REQUESTS_PER_MINUTE_MAX).contains(&requests)
    {
        let wanted = format!("write a number from 1 to {REQUESTS_PER_MINUTE_MAX}");
        return Err(ParameterError::new("requests_per_minute", wanted));
    }
    fetchers::check(&parameters.fetch)
}

/// What came of one request.
struct Done {
    event: Arc<Event>,
    url: String,
    at_ms: u64,
    took: Duration,
    outcome: Result<Fetched, FetchError>,
}

#[async_trait]
impl Worker for Downloader {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut waiting = Vec::new();
        for message in messages {
            let event = Event::of(message)?;
            let urls: Vec<String> = Urls::of(&event)?.all().map(str::to_owned).collect();
            waiting.extend(urls.into_iter().map(|url| (event.clone(), url)));
        }
        if let [(event, url)] = &mut waiting[..] {
            let (event, url) = (event.clone(), std::mem::take(url));
            let Some(start) = self.start(&event) else {
                return Ok(());
            };
            // A task of its own would only cost something.
            let done = fetch(self.fetcher.clone(), start, event, url).await;
            return self.deal_with(done, turn);
        }
        let mut waiting = waiting.into_iter();
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < AT_ONCE_MAX {
                let Some((event, url)) = waiting.next() else {
                    break;
                };
                if let Some(start) = self.start(&event) {
                    under_way.spawn(fetch(self.fetcher.clone(), start, event, url));
                }
            }
            match under_way.join_next().await {
                Some(Ok(done)) => self.deal_with(done, turn)?,
                Some(Err(error)) => return Err(Failure::new(error.to_string())),
                None => return Ok(()),
            }
        }
    }
}

/// Makes one request, when its time has come.
async fn fetch(fetcher: Arc<Fetcher>, start: Start, event: Arc<Event>, url: String) -> Done {
    if let Start::At(start) = start {
        tokio::time::sleep_until(start).await;
    }
    let began = Instant::now();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let outcome = match Url::parse(&url) {
        Ok(parsed) => {
            let referer = event.data().get("from").and_then(Data::as_text);
            let request = FetchRequest {
                etag: text(&event, "etag"),
                last_modified: text(&event, "last_modified"),
                referer: referer.and_then(|from| Url::parse(from).ok()),
                ..FetchRequest::new(parsed)
            };
            fetcher.fetch(&request).await
        }
        Err(error) => Err(FetchError::Address {
            url: url.clone(),
            reason: error.to_string(),
        }),
    };
    Done {
        event,
        url,
        at_ms: now.unwrap_or_default().as_millis() as u64,
        took: began.elapsed(),
        outcome,
    }
}

fn text(event: &Event, name: &str) -> Option<String> {
    let text = event.data().get(name).and_then(Data::as_text);
    text.map(str::to_owned)
}

impl Downloader {
    /// When the request of an event may start; none if that is so late that the frontier keeps it until then.
    fn start(&self, event: &Event) -> Option<Start> {
        let (Some(meter), Some(requests)) = (&self.meter, self.parameters.requests_per_minute)
        else {
            return Some(Start::Now);
        };
        let visit = Visit::of(event).filter(|_| Urls::of(event).is_ok_and(|urls| urls.is_single()));
        let mut next = meter.0.lock();
        let now = Instant::now();
        let start = (*next).max(now);
        if let Some(visit) = visit
            && start - now > WAIT_MAX
        {
            visit.put_off(start - now);
            return None;
        }
        *next = start + MINUTE / requests;
        Some(Start::At(start))
    }

    fn deal_with(&self, done: Done, turn: &mut Turn) -> Result<(), Failure> {
        let visit = Visit::of(&done.event);
        let mut outcome = Outcome {
            took: done.took,
            ..Outcome::default()
        };
        match &done.outcome {
            Ok(fetched) => {
                outcome.status = Some(fetched.status);
                let wait = fetched.retry_after.as_deref();
                outcome.retry_after = wait.and_then(|wait| retry_after(wait, SystemTime::now()));
                outcome.retry = self.parameters.retry_statuses.contains(&fetched.status);
                if outcome.retry {
                    outcome.reason = format!("the status {}", fetched.status);
                }
            }
            Err(error) => {
                outcome.retry = error.is_worth_retrying();
                outcome.reason = error.to_string();
            }
        }
        let is_put_off = match &visit {
            Some(visit) => {
                outcome.retry &= !visit.is_last_try();
                let is_put_off = outcome.retry;
                visit.report(outcome);
                is_put_off
            }
            None => false,
        };
        match is_put_off {
            true => Ok(()),
            false => self.emit(done, turn),
        }
    }

    fn emit(&self, done: Done, turn: &mut Turn) -> Result<(), Failure> {
        let urls = Urls::of(&done.event)?;
        let fetched = match &done.outcome {
            Ok(fetched) => fetched,
            Err(error) => {
                let rule = error.kind().as_str();
                return urls::refuse(
                    &done.event,
                    &urls,
                    &[&done.url],
                    rule,
                    error.to_string(),
                    turn,
                );
            }
        };
        if let Some(to) = self.redirect(fetched) {
            return redirected(&done, &urls, &to, turn);
        }
        let page = Event::new(self.page(&done, &urls, fetched).into())
            .with_body(fetched.body.clone())
            .held_like(&done.event);
        turn.emit_value(OUT, Arc::new(page))
    }

    /// Where a redirect leads that was not followed.
    fn redirect(&self, fetched: &Fetched) -> Option<Url> {
        let is_redirect = matches!(fetched.status, 301 | 302 | 303 | 307 | 308);
        if self.parameters.follow_redirects || !is_redirect {
            return None;
        }
        let location = fetched.headers.get("location")?;
        let location = String::from_utf8_lossy(location.as_bytes());
        resolve(&fetched.final_url, location.trim())
    }

    fn page(&self, done: &Done, urls: &Urls<'_>, fetched: &Fetched) -> Record {
        let hash = xxhash_rust::xxh3::xxh3_128(&fetched.body);
        let optional = |text: &Option<String>| match text {
            Some(text) => Data::from(text.clone()),
            None => Data::Null,
        };
        let headers = headers(fetched);
        Record::from_iter([
            ("charset", optional(&fetched.charset)),
            ("depth", Data::from(u64::from(urls.depth))),
            ("fetched_at", done.at_ms.into()),
            ("final_url", fetched.final_url.as_str().to_owned().into()),
            ("from", urls.from.to_owned().into()),
            ("hash", format!("{hash:032x}").into()),
            ("headers", headers.into()),
            ("host", urls.host.to_owned().into()),
            ("http", fetched.version.as_str().into()),
            ("mime", optional(&fetched.mime)),
            ("node", self.node.clone().into()),
            ("size", (fetched.body.len() as u64).into()),
            ("status", u64::from(fetched.status).into()),
            ("took_ms", (done.took.as_millis() as u64).into()),
            ("url", done.url.clone().into()),
        ])
    }
}

/// The headers of an answer; those of one name stand together.
fn headers(fetched: &Fetched) -> Record {
    let mut fields: Vec<(String, String)> = Vec::with_capacity(fetched.headers.len());
    for (name, value) in &fetched.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        match fields.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, known)) => {
                known.push_str(", ");
                known.push_str(&value);
            }
            None => fields.push((name.to_string(), value.into_owned())),
        }
    }
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name, Data::from(value)))
        .collect()
}

/// The place that a redirect leads to is a URL like any other, as deep as the one that led there.
fn redirected(done: &Done, urls: &Urls<'_>, to: &Url, turn: &mut Turn) -> Result<(), Failure> {
    let status = done.outcome.as_ref().map_or(0, |fetched| fetched.status);
    let data = Data::record([
        ("depth", Data::from(u64::from(urls.depth))),
        ("from", done.url.clone().into()),
        ("host", host_of(to).into()),
        (REDIRECTS, (u64::from(urls.redirects) + 1).into()),
        ("urls", vec![Data::from(to.as_str().to_owned())].into()),
    ]);
    let event = Event::new(data).held_like(&done.event);
    turn.emit_value(REDIRECTS, Arc::new(event))?;
    let reason = format!("it is redirected to {to}, with the status {status}");
    urls::refuse(&done.event, urls, &[&done.url], "redirect", reason, turn)
}

#[cfg(test)]
mod tests;
