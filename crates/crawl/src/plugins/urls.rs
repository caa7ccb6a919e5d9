//! URL events: one or several URLs of one host, with how deep they are and where they were found.

use std::sync::Arc;

use flows::plugins::author::REFUSED;
use flows::{Data, Event};
use kernel::worker::{Failure, Turn};

/// The field that counts redirects; an event without it was not reached by one.
pub(super) const REDIRECTS: &str = "redirects";

/// What a URL event says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Urls<'a> {
    pub host: &'a str,
    pub depth: u32,
    /// Empty for a seed.
    pub from: &'a str,
    /// How many redirects in a row lead there.
    pub redirects: u32,
    one: Option<&'a str>,
    several: Option<&'a flows::List>,
}

impl<'a> Urls<'a> {
    /// What an event says; a failure if it is no URL event.
    pub fn of(event: &'a Event) -> Result<Self, Failure> {
        let urls = Self::of_any_host(event)?;
        match urls.host.is_empty() {
            false => Ok(urls),
            true => Err(Failure::new(
                "the event has no `host`: put a URL normaliser before this stage",
            )),
        }
    }

    /// The same, also if the event does not name the host.
    pub fn of_any_host(event: &'a Event) -> Result<Self, Failure> {
        let data = event.data();
        let text = |name: &str| data.get(name).and_then(Data::as_text);
        let one = text("url");
        let several = data.get("urls").and_then(Data::as_list);
        if one.is_none() && several.is_none() {
            return Err(Failure::new(
                "the event has neither `url` nor `urls`: this stage takes URLs, such as those of a seed or a link extractor",
            ));
        }
        let number = |name: &str| {
            let number = data.get(name).and_then(Data::as_int).unwrap_or(0);
            u32::try_from(number.max(0)).unwrap_or(u32::MAX)
        };
        Ok(Self {
            host: text("host").unwrap_or_default(),
            depth: number("depth"),
            from: text("from").unwrap_or_default(),
            redirects: number(REDIRECTS),
            one,
            several,
        })
    }

    /// The URLs.
    pub fn all(&self) -> impl Iterator<Item = &'a str> {
        let several = self.several.into_iter().flat_map(flows::List::iter);
        self.one
            .into_iter()
            .chain(several.filter_map(Data::as_text))
    }

    /// Whether there is one under the name `url`.
    pub fn is_single(&self) -> bool {
        self.one.is_some()
    }
}

/// The data of a URL event with these URLs instead.
pub(super) fn data<'a>(urls: &Urls<'_>, these: impl Iterator<Item = &'a str>) -> Data {
    let these: Vec<Data> = these.map(|url| url.to_owned().into()).collect();
    let fields = [
        ("depth", Data::from(u64::from(urls.depth))),
        ("from", urls.from.to_owned().into()),
        ("host", urls.host.to_owned().into()),
        ("urls", these.into()),
    ];
    let redirects = (urls.redirects > 0).then(|| (REDIRECTS, u64::from(urls.redirects).into()));
    Data::record(fields.into_iter().chain(redirects))
}

/// Emits URLs of an event as refused.
pub(super) fn refuse(
    event: &Event,
    urls: &Urls<'_>,
    refused: &[&str],
    rule: &'static str,
    reason: String,
    turn: &mut Turn,
) -> Result<(), Failure> {
    let Data::Record(mut record) = data(urls, refused.iter().copied()) else {
        unreachable!("URL events are records");
    };
    record.set("at", turn.now().as_millis().into());
    record.set("reason", reason.into());
    record.set("rule", rule.into());
    let refused = Event::new(record.into()).held_like(event);
    turn.emit_value(REFUSED, Arc::new(refused))
}
