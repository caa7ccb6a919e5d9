//! Page events: what a downloader makes of an answer, with the body beside the record.

use std::sync::Arc;

use bytes::Bytes;
use flows::plugins::author::REFUSED;
use flows::{Data, Event};
use kernel::worker::{Failure, Turn};
use url::Url;

use crate::sniff::{Kind, Sniffed, sniff};

/// What a page event says.
#[derive(Clone, Debug)]
pub(super) struct Page<'a> {
    event: &'a Event,
    /// What was asked for.
    pub url: &'a str,
}

impl<'a> Page<'a> {
    /// What an event says; a failure if it is no page.
    pub fn of(event: &'a Event) -> Result<Self, Failure> {
        match event.data().get("url").and_then(Data::as_text) {
            Some(url) => Ok(Self { event, url }),
            None => Err(Failure::new(
                "the event has no `url`: this stage takes pages, such as those of a downloader",
            )),
        }
    }

    /// A field that is a text.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.event.data().get(name).and_then(Data::as_text)
    }

    /// A field that is a whole number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.event.data().get(name).and_then(Data::as_int)
    }

    /// Where the page was in the end.
    pub fn final_url(&self) -> &'a str {
        self.text("final_url").unwrap_or(self.url)
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let headers = self.event.data().get("headers")?;
        headers.get(name).and_then(Data::as_text)
    }

    /// The body; nothing if there is none.
    pub fn body(&self) -> Bytes {
        self.event.body().unwrap_or_default()
    }

    /// What the body is, as a content filter found or as it is found now.
    pub fn kind(&self, body: &[u8]) -> Kind {
        let named = self.text("kind").and_then(|name| {
            let kinds = [Kind::Html, Kind::Xhtml, Kind::Xml, Kind::Text, Kind::Other];
            kinds.into_iter().find(|kind| kind.name() == name)
        });
        named.unwrap_or_else(|| self.sniff(body).kind)
    }

    /// What the body is by its header and its bytes.
    pub fn sniff(&self, body: &[u8]) -> Sniffed {
        sniff(self.header("content-type").or(self.text("mime")), body)
    }

    /// The same page with these fields: its body and its hold stay.
    pub fn with(&self, fields: impl IntoIterator<Item = (&'static str, Data)>) -> Event {
        let Data::Record(record) = self.event.data() else {
            unreachable!("only records have a url");
        };
        let mut record = record.clone();
        for (name, value) in fields {
            record.set(name, value);
        }
        self.event.with_data(record.into())
    }

    /// Emits what is known of the page as refused, without its body.
    pub fn refuse(
        &self,
        rule: &'static str,
        reason: String,
        more: impl IntoIterator<Item = (&'static str, Data)>,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let kept = ["url", "host", "from", "depth", "status"];
        let kept = kept.into_iter().filter_map(|name| {
            let value = self.event.data().get(name)?;
            Some((name, value.clone()))
        });
        let about = [
            ("at", Data::from(turn.now().as_millis())),
            ("reason", reason.into()),
            ("rule", rule.into()),
        ];
        let data = Data::record(kept.chain(about).chain(more));
        let refused = Event::new(data).held_like(self.event);
        turn.emit_value(REFUSED, Arc::new(refused))
    }
}

/// A body that is compressed by itself, and not only on its way.
pub(super) fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(b"\x1f\x8b\x08")
}

/// What addresses on a page are relative to: its own, or what `<base>` says.
pub(super) fn base_of(page: &str, base: Option<&str>) -> Option<Url> {
    let page = Url::parse(page).ok()?;
    let said = base.and_then(|base| page.join(base).ok());
    Some(said.filter(|url| !url.cannot_be_a_base()).unwrap_or(page))
}

/// An address of the web, absolute and without the part behind `#`.
pub(super) fn resolve(base: &Url, address: &str) -> Option<Url> {
    let mut url = base.join(address).ok()?;
    url.set_fragment(None);
    let is_of_web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    is_of_web.then_some(url)
}

/// The host of an address, with its port if that is not the usual one.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
