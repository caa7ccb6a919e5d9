//! `page-store`: pages and what was refused, in a database.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flows::plugins::author::{OUT, Plugin, check_file};
use flows::plugins::{Environment, Outputs, ParameterError, Period};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinHandle};
use xxhash_rust::xxh3::Xxh3Default;

use super::page::Page;
use super::shared::Shared;
use crate::store::{PageRow, Place, RefusalRow, Settings, Store, StoreError};

/// Parameters of `page-store`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Where to: a folder in the folder of flows, in which an SQLite database is made, or
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Beyond this machine the connection is always encrypted.
    to: String,
    /// Whether bodies are kept. Without them there is what was made from them, such as the text.
    #[serde(default = "keep_body")]
    keep_body: bool,
    /// Whether there is a full-text index, so that the texts can be searched. Storing takes about twice as long with it. It can
    /// be switched on later: it is built then for what is there.
    #[serde(default)]
    search: bool,
    /// How long a database on a server may take. It has to be shorter than a turn of the stage may take.
    #[serde(default = "timeout")]
    timeout: Period,
}

fn keep_body() -> bool {
    true
}

fn timeout() -> Period {
    Period::from_millis(800)
}

pub(super) struct PageStore {
    place: Place,
    settings: Settings,
    node: String,
    slot: Arc<Mutex<Slot>>,
    refused: Recent,
}

/// A store that is opened when it is needed first.
#[derive(Default)]
struct Slot {
    store: Option<Store>,
    /// Opening goes on by itself if the turn ends before, as building an index takes its time.
    opening: Option<JoinHandle<Result<Store, StoreError>>>,
}

impl Plugin for PageStore {
    const ID: &'static str = "page-store";
    const DESCRIPTION: &'static str = "Stores pages, and what was refused with the reason, in a database.\n\n\
        Connect it with pages and with all outputs `refused`. All events of a turn are written in one transaction, so give the stage large batches: \
        `batch_messages_max` of 128 is a good choice. A page that is fetched again replaces what is there; an answer with status 304 only \
        says that it was looked at. A turn that is undone after it was written is written again, which leaves one row all the same.";
    const OUTPUTS: Outputs = Outputs::Optional(&[(
        OUT,
        "Pages, as they came, once they are stored. What was refused does not come out.",
    )]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("A folder", r#"{"to": "crawls/site"}"#),
        (
            "Texts that can be searched, without bodies",
            r#"{"to": "crawls/site", "keep_body": false, "search": true}"#,
        ),
        (
            "A database that several nodes write",
            r#"{"to": "postgres://hivewire@localhost/crawls"}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        let place = match place(&parameters)? {
            Place::Folder(_) => Place::Folder(environment.file("to", &parameters.to)?),
            server => server,
        };
        let settings = Settings {
            keeps_bodies: parameters.keep_body,
            search: parameters.search,
            timeout: parameters.timeout.duration(),
        };
        let slot = match &place {
            // SQLite takes one writer, so workers take turns.
            Place::Folder(folder) => {
                let key = (folder.clone(), settings.keeps_bodies, settings.search);
                Shared::<(PathBuf, bool, bool), Mutex<Slot>>::get(environment, key)
            }
            Place::Postgres(_) => Arc::default(),
        };
        Ok(Self {
            place,
            settings,
            node: environment.node.clone(),
            slot,
            refused: Recent::default(),
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        place(&parameters).map(drop)
    }
}

fn place(parameters: &Parameters) -> Result<Place, ParameterError> {
    let place: Result<Place, StoreError> = parameters.to.parse();
    let place = place.map_err(|error| ParameterError::new("to", error.to_string()))?;
    if let Place::Folder(_) = &place {
        check_file("to", &parameters.to)?;
    }
    match parameters.timeout.duration() > Duration::ZERO {
        true => Ok(place),
        false => Err(ParameterError::new(
            "timeout",
            "write a time above nothing, such as 800ms",
        )),
    }
}

#[async_trait]
impl Worker for PageStore {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let now = i64::try_from(turn.now().as_millis()).unwrap_or(i64::MAX);
        let mut batch = Batch::default();
        for message in messages
            .iter()
            .filter(|message| message.kind == Kind::Message)
        {
            self.add(Event::of(message)?, now, &mut batch)?;
        }
        let written = self.write(batch).await;
        let batch = written.map_err(|error| Failure::new(error.to_string()))?;
        self.refused.add(batch.fingerprints);
        let mut passed = batch.passed.into_iter();
        passed.try_for_each(|event| turn.emit_value(OUT, event))
    }
}

/// What is written in one transaction.
#[derive(Default)]
struct Batch {
    pages: Vec<PageRow>,
    refusals: Vec<RefusalRow>,
    fingerprints: HashSet<u64>,
    /// What comes out when it is written.
    passed: Vec<Arc<Event>>,
}

impl PageStore {
    fn add(&self, event: Arc<Event>, now: i64, batch: &mut Batch) -> Result<(), Failure> {
        match event.data().get("rule").and_then(Data::as_text) {
            Some(rule) => self.add_refused(&event, rule, now, batch),
            None => {
                batch.pages.push(self.page(&event, now)?);
                batch.passed.push(event);
                Ok(())
            }
        }
    }

    /// The same links stand on many pages, so what was refused of late is not written again.
    fn add_refused(
        &self,
        event: &Event,
        rule: &str,
        now: i64,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let data = event.data();
        let text = |name: &str| data.get(name).and_then(Data::as_text);
        let one = data.get("url").into_iter();
        let many = data.get("urls").and_then(Data::as_list);
        let urls = one.chain(many.into_iter().flat_map(|list| list.iter()));
        let mut is_empty = true;
        for url in urls.filter_map(Data::as_text) {
            is_empty = false;
            let fingerprint = fingerprint(url, rule);
            if self.refused.has(fingerprint) || !batch.fingerprints.insert(fingerprint) {
                continue;
            }
            batch.refusals.push(RefusalRow {
                url: url.to_owned(),
                host: text("host").unwrap_or_default().to_owned(),
                stage: filled(text("stage")),
                rule: rule.to_owned(),
                reason: text("reason").unwrap_or_default().to_owned(),
                from: filled(text("from")),
                depth: natural(data, "depth"),
                at: data.get("at").and_then(Data::as_int).unwrap_or(now),
                node: text("node").unwrap_or(&self.node).to_owned(),
            });
        }
        match is_empty {
            true => Err(Failure::new(
                "the event was refused and has no `url`, and no `urls`",
            )),
            false => Ok(()),
        }
    }

    fn page(&self, event: &Event, now: i64) -> Result<PageRow, Failure> {
        let page = Page::of(event)?;
        let data = event.data();
        let text = |name| filled(page.text(name));
        let json = |name| match data.get(name) {
            None | Some(Data::Null) => Ok(None),
            Some(value) => serde_json::to_string(value).map(Some),
        };
        let body = event.body();
        let length = body.as_ref().map_or(0, |body| body.len() as u64);
        let size = page
            .number("size")
            .and_then(|size| u64::try_from(size).ok());
        Ok(PageRow {
            url: page.url.to_owned(),
            final_url: page.final_url().to_owned(),
            host: page.text("host").unwrap_or_default().to_owned(),
            depth: natural(data, "depth"),
            from: text("from"),
            status: natural(data, "status"),
            mime: text("mime"),
            charset: text("charset"),
            size: size.unwrap_or(length),
            fetched_at: page.number("fetched_at").unwrap_or(now),
            took_ms: natural(data, "took_ms"),
            node: page.text("node").unwrap_or(&self.node).to_owned(),
            title: text("title"),
            language: text("language"),
            description: text("description"),
            hash: text("hash"),
            simhash: text("simhash"),
            headers: json("headers")?,
            fields: json("fields")?,
            fetches: 0,
            text: text("text"),
            body,
        })
    }

    /// Gives the batch back when it is written.
    async fn write(&self, batch: Batch) -> Result<Batch, StoreError> {
        if batch.pages.is_empty() && batch.refusals.is_empty() {
            return Ok(batch);
        }
        let mut slot = self.slot.lock().await;
        let mut store = slot.take(&self.place, self.settings).await?;
        // Not on the thread of the turn, which has better things to do than to wait for the disk. If the turn is ended meanwhile
        // the store goes, too: nobody is there who could tell what became of it.
        let writing = tokio::spawn(async move {
            let written = store.write(&batch.pages, &batch.refusals).await;
            written.map(|()| (store, batch))
        });
        let (store, batch) = writing
            .await
            .unwrap_or_else(|error| Err(self.ended(&error)))?;
        slot.store = Some(store);
        Ok(batch)
    }

    fn ended(&self, error: &JoinError) -> StoreError {
        StoreError::Unusable {
            place: self.place.to_string(),
            problem: format!("what wrote it ended: {error}"),
        }
    }
}

impl Slot {
    /// The store, opened if need be. If all went well, it is put back.
    async fn take(&mut self, place: &Place, settings: Settings) -> Result<Store, StoreError> {
        if let Some(store) = self.store.take() {
            return Ok(store);
        }
        let opening = self.opening.get_or_insert_with(|| {
            let place = place.clone();
            tokio::spawn(async move { Store::open(&place, settings).await })
        });
        let opened = opening.await;
        self.opening = None;
        opened.unwrap_or_else(|error| {
            Err(StoreError::Unusable {
                place: place.to_string(),
                problem: format!("opening it failed: {error}"),
            })
        })
    }
}

fn filled(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A number of the event, or none at all if it is none.
fn natural<T: TryFrom<i64> + Default>(data: &Data, name: &str) -> T {
    let number = data.get(name).and_then(Data::as_int);
    number
        .and_then(|number| T::try_from(number).ok())
        .unwrap_or_default()
}

fn fingerprint(url: &str, rule: &str) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(rule.as_bytes());
    hasher.update(&[0]);
    hasher.update(url.as_bytes());
    hasher.digest()
}

/// What was written of late. Of two halves the older is forgotten when the newer is full.
#[derive(Default)]
struct Recent {
    newer: HashSet<u64>,
    older: HashSet<u64>,
}

/// At most twice as many are remembered, in some megabytes.
const RECENT_HALF_MAX: usize = 100_000;

impl Recent {
    fn has(&self, fingerprint: u64) -> bool {
        self.newer.contains(&fingerprint) || self.older.contains(&fingerprint)
    }

    fn add(&mut self, fingerprints: HashSet<u64>) {
        if self.newer.len() + fingerprints.len() > RECENT_HALF_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.extend(fingerprints);
    }
}
