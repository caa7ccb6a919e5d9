//! `warc-writer`: pages become web archives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flows::plugins::author::{OUT, Plugin, check_file};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::page::Page;
use super::shared::Shared;
use crate::warc::{Exchange, WarcSettings, WarcWriter, repair};

/// Parameters of `warc-writer`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The folder of the archives, in the folder of flows. It is made if need be.
    folder: String,
    /// What names of files begin with: letters, digits, `-` and `_`.
    #[serde(default = "prefix")]
    prefix: String,
    /// How large a file may become before the next one is begun.
    #[serde(default = "file_bytes_max")]
    file_bytes_max: u64,
}

fn prefix() -> String {
    "crawl".to_owned()
}

fn file_bytes_max() -> u64 {
    1 << 30
}

pub(super) struct Warc {
    settings: WarcSettings,
    slot: Arc<Mutex<Option<WarcWriter>>>,
}

impl Plugin for Warc {
    const ID: &'static str = "warc-writer";
    const DESCRIPTION: &'static str = "Writes pages into web archives: WARC 1.1, compressed record by record.\n\n\
        Connect it with the downloader, so that pages are archived before anything changes them. Bodies are archived decoded; what the headers \
        said about their encoding is kept under names with `x-orig-` in front. A body that was archived of late is referred to and not written again, and \
        so is a page that has not changed (status 304). A file ends in `.open` while it is written; what a crash left of one is made whole. A turn that is \
        undone after it was written is written again: each page is archived at least once.";
    const OUTPUTS: Outputs =
        Outputs::Optional(&[(OUT, "Pages, as they came, once they are archived.")]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("As usual", r#"{"folder": "archives/site"}"#),
        (
            "Small files",
            r#"{"folder": "archives/site", "prefix": "site", "file_bytes_max": 100000000}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let folder = environment.file("folder", &parameters.folder)?;
        let key = (folder.clone(), parameters.prefix.clone());
        let mut settings = WarcSettings::of(&folder);
        settings.prefix = parameters.prefix;
        settings.file_bytes_max = parameters.file_bytes_max;
        if !environment.node.is_empty() {
            settings.about = vec![("hostname".to_owned(), environment.node.clone())];
        }
        Ok(Self {
            settings,
            slot: Shared::<(PathBuf, String), Mutex<Option<WarcWriter>>>::get(environment, key),
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

const PREFIX_BYTES_MAX: usize = 100;

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    check_file("folder", &parameters.folder)?;
    let prefix = &parameters.prefix;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match (1..=PREFIX_BYTES_MAX).contains(&prefix.len()) && prefix.bytes().all(fits) {
        true => Ok(()),
        false => {
            let wanted = format!("write 1 to {PREFIX_BYTES_MAX} letters, digits, - and _");
            Err(ParameterError::new("prefix", wanted))
        }
    }
}

#[async_trait]
impl Worker for Warc {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let now = i64::try_from(turn.now().as_millis()).unwrap_or(i64::MAX);
        let (mut exchanges, mut passed) = (Vec::new(), Vec::new());
        for message in messages
            .iter()
            .filter(|message| message.kind == Kind::Message)
        {
            let event = Event::of(message)?;
            // Of what was refused there is nothing to archive.
            if event.data().get("rule").is_none() {
                exchanges.push(exchange(&event, now)?);
                passed.push(event);
            }
        }
        if !exchanges.is_empty() {
            self.write(exchanges).await?;
        }
        let mut passed = passed.into_iter();
        passed.try_for_each(|event| turn.emit_value(OUT, event))
    }
}

impl Warc {
    /// Not on the thread of the turn, which has better things to do than to wait for the disk. If the turn is ended meanwhile, the
    /// file is finished, and the next turn begins another.
    async fn write(&self, exchanges: Vec<Exchange>) -> Result<(), Failure> {
        let mut slot = self.slot.lock().await;
        let mut writer = slot.take().unwrap_or_else(|| self.begin());
        let writing = tokio::task::spawn_blocking(move || {
            let written = writer.write(&exchanges);
            (writer, written)
        });
        let (writer, written) = writing
            .await
            .map_err(|error| Failure::new(format!("what wrote the archive ended: {error}")))?;
        *slot = Some(writer);
        written.map_err(|error| Failure::new(error.to_string()))
    }

    fn begin(&self) -> WarcWriter {
        let WarcSettings { folder, prefix, .. } = self.settings.clone();
        // Nobody waits for that, as all of a file is read. The writer begins a file of its own.
        drop(tokio::task::spawn_blocking(move || {
            repair_and_tell(&folder, &prefix)
        }));
        WarcWriter::new(self.settings.clone())
    }
}

fn repair_and_tell(folder: &Path, prefix: &str) {
    match repair(folder, prefix) {
        Ok(repaired) => {
            for file in repaired {
                let name = file.file.unwrap_or_else(|| folder.to_owned());
                let (records, cut) = (file.records, file.cut_bytes);
                let name = name.display();
                tracing::info!(
                    "an archive that was left open has {records} records, {cut} bytes were cut off: {name}"
                );
            }
        }
        Err(error) => tracing::warn!("archives that were left open cannot be made whole: {error}"),
    }
}

fn exchange(event: &Event, now: i64) -> Result<Exchange, Failure> {
    let page = Page::of(event)?;
    let status = page
        .number("status")
        .and_then(|status| u16::try_from(status).ok());
    let mut metadata = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        metadata.extend(value.map(|value| (name.to_owned(), value)));
    };
    let is_elsewhere = page.final_url() != page.url;
    let text = |name| {
        page.text(name)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let number = |name| page.number(name).map(|number| number.to_string());
    add("via", text("from"));
    add("hopsFromSeed", number("depth"));
    add("fetchTimeMs", number("took_ms"));
    add("redirectedFrom", is_elsewhere.then(|| page.url.to_owned()));
    Ok(Exchange {
        url: page.final_url().to_owned(),
        fetched_at: page.number("fetched_at").unwrap_or(now),
        request_headers: pairs(event, "request_headers"),
        status: status.unwrap_or_default(),
        headers: pairs(event, "headers").unwrap_or_default(),
        body: page.body(),
        metadata,
    })
}

fn pairs(event: &Event, name: &str) -> Option<Vec<(String, String)>> {
    let Data::Record(record) = event.data().get(name)? else {
        return None;
    };
    let pairs = record
        .iter()
        .map(|(name, value)| (name.to_owned(), value.key_text().into_owned()));
    Some(pairs.collect())
}
