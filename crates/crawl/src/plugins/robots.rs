//! `robots`: only what robots.txt of a host allows passes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use flows::plugins::author::{OUT, Plugin, REFUSED};
use flows::plugins::{Environment, Outputs, ParameterError, Period};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Turn, Worker};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::Url;

use super::fetchers::Fetchers;
use super::urls::{self, Urls};
use crate::fetch::{FetchError, FetchErrorKind, FetchRequest, FetchSettings, Fetcher};
use crate::robots::{OfStatus, Robots as Parsed, Rules};
use crate::visit::{Outcome, Visit};

/// Parameters of `robots`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How robots.txt is fetched, and who asks for it: the first word of `user_agent` is the name that is looked for there.
    #[serde(default)]
    fetch: FetchSettings,
    /// How long a robots.txt is used before it is fetched again.
    #[serde(default = "keep")]
    keep: Period,
    /// How long a host is left alone whose robots.txt cannot be fetched. After the last try its URLs are refused.
    #[serde(default = "again_after")]
    again_after: Period,
    /// How many hosts are remembered.
    #[serde(default = "hosts_max")]
    hosts_max: usize,
}

fn keep() -> Period {
    Period::from_millis(24 * 3_600_000)
}

fn again_after() -> Period {
    Period::from_millis(60_000)
}

fn hosts_max() -> usize {
    100_000
}

pub(super) struct Robots {
    parameters: Parameters,
    fetcher: Arc<Fetcher>,
    known: Arc<Known>,
}

/// What is known of hosts on this node, for all stages that ask in the same name.
#[derive(Default)]
struct AllKnown(Mutex<HashMap<String, Arc<Known>>>);

#[derive(Default)]
struct Known(Mutex<HashMap<String, Arc<Site>>>);

/// What is known of one scheme, host and port.
struct Site {
    since: Instant,
    rules: OnceCell<Answer>,
}

/// What a robots.txt says, or why nobody knows.
#[derive(Clone)]
struct Answer {
    rules: Rules,
    sitemaps: Vec<String>,
    /// Why it could not be fetched.
    trouble: Option<String>,
}

const SITEMAPS: &str = "sitemaps";

impl Plugin for Robots {
    const ID: &'static str = "robots";
    const DESCRIPTION: &'static str = "Lets those URLs pass that robots.txt of their host allows.\n\n\
        It keeps to RFC 9309: the longest pattern decides; a host without robots.txt allows everything; one whose robots.txt cannot be fetched is \
        asked later, and nothing else is asked for meanwhile. Its `crawl-delay` reaches the frontier. What is refused is told with the line that decided.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "Requests that are allowed."),
        (
            REFUSED,
            "Requests that are not, with `rule` and the line of robots.txt as `reason`.",
        ),
        (
            SITEMAPS,
            "The sitemaps that a robots.txt names, as URLs, each time one is fetched.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "In one's own name",
        r#"{"fetch": {"user_agent": "ExampleBot/1.0", "contact": "crawl@example.com"}}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        let fetcher = Fetchers::of(environment).get(&parameters.fetch)?;
        let all = environment.shared.get_or_make(AllKnown::default);
        let agent = parameters.fetch.user_agent.clone();
        let known = all.0.lock().entry(agent).or_default().clone();
        Ok(Self {
            parameters,
            fetcher,
            known,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        super::fetchers::check(&parameters.fetch)
    }
}

#[async_trait]
impl Worker for Robots {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let urls = Urls::of(&event)?;
        let mut allowed = Vec::new();
        for text in urls.all() {
            let Ok(url) = Url::parse(text) else {
                let reason = format!("{text} is no URL: put a URL normaliser before this stage");
                urls::refuse(&event, &urls, &[text], "robots", reason, turn)?;
                continue;
            };
            let (answer, is_new) = self.answer(&url).await;
            if is_new {
                tell_sitemaps(&event, &urls, &answer.sitemaps, turn)?;
            }
            if let Some(trouble) = &answer.trouble {
                self.put_off(&event, &urls, text, trouble, turn)?;
                continue;
            }
            if let (Some(visit), Some(delay)) = (Visit::of(&event), answer.rules.crawl_delay()) {
                visit.note_crawl_delay(delay);
            }
            let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
            let decision = answer.rules.decide(path);
            if decision.allowed {
                allowed.push(text);
                continue;
            }
            let reason = match &decision.line {
                Some(line) => format!(
                    "robots.txt of {} forbids it in line {}: {}",
                    urls.host, line.number, line.text
                ),
                None => format!("robots.txt of {} forbids everything", urls.host),
            };
            urls::refuse(&event, &urls, &[text], "robots", reason, turn)?;
        }
        if allowed.is_empty() {
            return Ok(());
        }
        if allowed.len() == urls.all().count() {
            return turn.emit_value(OUT, event);
        }
        let data = urls::data(&urls, allowed.into_iter());
        turn.emit_value(OUT, Arc::new(Event::new(data).held_like(&event)))
    }
}

impl Robots {
    /// What robots.txt says that is in charge of a URL, and whether it was fetched just now.
    async fn answer(&self, url: &Url) -> (Answer, bool) {
        let origin = &url[..url::Position::BeforePath];
        let site = self.site(origin);
        let mut is_new = false;
        let fetched = site.rules.get_or_init(|| async {
            is_new = true;
            self.fetch(url).await
        });
        (fetched.await.clone(), is_new)
    }

    /// What is known of a site; something fresh if that is too old.
    fn site(&self, origin: &str) -> Arc<Site> {
        let mut known = self.known.0.lock();
        if let Some(site) = known.get(origin)
            && !self.is_over(site)
        {
            return site.clone();
        }
        if known.len() >= self.parameters.hosts_max {
            known.retain(|_, site| !self.is_over(site));
        }
        if known.len() >= self.parameters.hosts_max {
            // They are all in use, so it does not matter much which are fetched again.
            let some: Vec<String> = known.keys().take(known.len() / 8 + 1).cloned().collect();
            some.iter().for_each(|origin| drop(known.remove(origin)));
        }
        let site = Arc::new(Site {
            since: Instant::now(),
            rules: OnceCell::new(),
        });
        known.insert(origin.to_owned(), site.clone());
        site
    }

    fn is_over(&self, site: &Site) -> bool {
        let is_known = |answer: &Answer| answer.trouble.is_none();
        let keep = match site.rules.get().is_none_or(is_known) {
            true => self.parameters.keep,
            false => self.parameters.again_after,
        };
        site.since.elapsed() >= keep.duration()
    }

    async fn fetch(&self, url: &Url) -> Answer {
        let mut robots = url.clone();
        robots.set_path("/robots.txt");
        robots.set_query(None);
        robots.set_fragment(None);
        let fetched = self.fetcher.fetch(&FetchRequest::new(robots)).await;
        let (status, trouble) = match &fetched {
            Ok(fetched) => (
                Some(fetched.status),
                format!("it was answered with the status {}", fetched.status),
            ),
            Err(error) => (None, error.to_string()),
        };
        // The fetcher has followed redirects already.
        let redirects = crate::robots::REDIRECTS_MAX;
        let nothing = |rules| Answer {
            rules,
            sitemaps: Vec::new(),
            trouble: None,
        };
        // Nothing of such a host is fetched: whoever fetches refuses it, too, and says why. Waiting would not help.
        if matches!(&fetched, Err(error) if is_hopeless(error)) {
            return nothing(Rules::allow_all());
        }
        match (Parsed::of_status(status, redirects), &fetched) {
            (OfStatus::Parse, Ok(fetched)) => {
                let parsed = Parsed::parse(&fetched.body);
                Answer {
                    rules: parsed.for_agent(&self.parameters.fetch.user_agent),
                    sitemaps: parsed.sitemaps().to_vec(),
                    trouble: None,
                }
            }
            (OfStatus::AllowAll, _) => nothing(Rules::allow_all()),
            _ => Answer {
                trouble: Some(trouble),
                ..nothing(Rules::disallow_all())
            },
        }
    }

    /// Nobody knows what is allowed, so the URL is asked for later, if there is somebody who keeps it.
    fn put_off(
        &self,
        event: &Event,
        urls: &Urls<'_>,
        url: &str,
        trouble: &str,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let reason = format!("robots.txt of {} cannot be fetched: {trouble}", urls.host);
        if let Some(visit) = Visit::of(event) {
            visit.report(Outcome {
                retry: !visit.is_last_try(),
                retry_after: Some(self.parameters.again_after.duration()),
                reason: reason.clone(),
                ..Outcome::default()
            });
            if !visit.is_last_try() {
                return Ok(());
            }
        }
        urls::refuse(event, urls, &[url], "robots", reason, turn)
    }
}

/// Whether there is nobody to ask, now or later.
fn is_hopeless(error: &FetchError) -> bool {
    let is_of_host = matches!(
        error.kind(),
        FetchErrorKind::Address
            | FetchErrorKind::Name
            | FetchErrorKind::Private
            | FetchErrorKind::Tls
    );
    is_of_host && !error.is_worth_retrying()
}

/// Sitemaps are seeds of their host.
fn tell_sitemaps(
    event: &Event,
    urls: &Urls<'_>,
    sitemaps: &[String],
    turn: &mut Turn,
) -> Result<(), Failure> {
    if sitemaps.is_empty() {
        return Ok(());
    }
    let data = Data::record([
        ("depth", Data::from(0_u64)),
        ("from", format!("robots.txt of {}", urls.host).into()),
        ("host", urls.host.to_owned().into()),
        (
            "urls",
            Data::from(sitemaps.iter().cloned().map(Data::from).collect::<Vec<_>>()),
        ),
    ]);
    turn.emit_value(SITEMAPS, Arc::new(Event::new(data).held_like(event)))
}
