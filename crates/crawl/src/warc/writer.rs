//! Writing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use url::Url;

use super::files::OpenFile;
use super::pack::Packer;
use super::record::{Draft, Sha1Digest, digest_text, fields, new_id, put_header, sha1, time_text};
use super::{Exchange, WarcError, WarcSettings};

/// Writes archives into a folder. Dropping it finishes the file.
pub struct WarcWriter {
    settings: WarcSettings,
    file: Option<OpenFile>,
    /// What is to be written.
    packed: Vec<u8>,
    packer: Packer,
    serial: u32,
    archived: Archived,
    finished: Vec<PathBuf>,
}

impl WarcWriter {
    /// A writer. It makes its first file when there is something to write.
    pub fn new(settings: WarcSettings) -> Self {
        Self {
            archived: Archived::new(settings.bodies_remembered_max),
            settings,
            file: None,
            packed: Vec::new(),
            packer: Packer::new(),
            serial: 0,
            finished: Vec::new(),
        }
    }

    /// Archives all of it. When this returns, it is permanent. What fails may be in a file in part, whole exchange by whole
    /// exchange, and is to be written again.
    pub fn write(&mut self, exchanges: &[Exchange]) -> Result<(), WarcError> {
        let mut remembered = Vec::new();
        self.packed.clear();
        for exchange in exchanges {
            let begun = self.packed.len() as u64;
            let length = self.file.as_ref().map_or(0, |file| file.length) + begun;
            if length > 0 && length >= self.settings.file_bytes_max {
                self.append()?;
                self.archived.remember(&mut remembered);
                self.roll()?;
            }
            self.begin_file()?;
            remembered.extend(self.put(exchange, &remembered)?);
        }
        self.append()?;
        self.archived.remember(&mut remembered);
        Ok(())
    }

    /// Finishes the file, and gives all files that were finished since this was asked last.
    pub fn finish(&mut self) -> Result<Vec<PathBuf>, WarcError> {
        self.roll()?;
        Ok(std::mem::take(&mut self.finished))
    }

    fn roll(&mut self) -> Result<(), WarcError> {
        if let Some(file) = self.file.take() {
            let finished = file.finish()?;
            // Nobody may ever ask, so only the last ones are kept.
            if self.finished.len() >= FINISHED_MAX {
                self.finished.remove(0);
            }
            self.finished.extend(finished);
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), WarcError> {
        let packed = std::mem::take(&mut self.packed);
        let Some(file) = self.file.as_mut().filter(|_| !packed.is_empty()) else {
            return Ok(());
        };
        let appended = file.append(&packed);
        if appended.is_err() {
            // Nobody knows what became of it, so the next attempt makes another, and this one is left to be repaired.
            self.file = None;
        }
        // Its memory is used again, unless it is much.
        if packed.capacity() <= PACKED_KEPT_BYTES_MAX {
            self.packed = packed;
            self.packed.clear();
        }
        appended
    }

    /// Each file begins with where it comes from.
    fn begin_file(&mut self) -> Result<(), WarcError> {
        if self.file.is_some() {
            return Ok(());
        }
        let now = now_ms();
        let file = OpenFile::create(&self.settings, now, &mut self.serial)?;
        let usual = [
            ("software", concat!("hivewire/", env!("CARGO_PKG_VERSION"))),
            ("format", "WARC File Format 1.1"),
            (
                "conformsTo",
                "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            ),
        ];
        let about = self.settings.about.iter();
        let about = about.map(|(name, value)| (name.as_str(), value.as_str()));
        let block = fields(usual.into_iter().chain(about));
        let record = Draft::new("warcinfo", &new_id(), now)
            .header("WARC-Filename", &file.final_name())
            .header("Content-Type", "application/warc-fields")
            .with_block(block.as_bytes());
        self.file = Some(file);
        self.pack(&record)
    }

    fn pack(&mut self, record: &[u8]) -> Result<(), WarcError> {
        let packed = self.packer.pack(record, &mut self.packed);
        packed.map_err(|error| WarcError::file(&self.settings.folder, error))
    }

    /// Packs the records of an exchange. Gives what is to be remembered of it once it is written.
    fn put(
        &mut self,
        exchange: &Exchange,
        written: &[(Sha1Digest, Known)],
    ) -> Result<Option<(Sha1Digest, Known)>, WarcError> {
        let id = new_id();
        let digest = sha1(&exchange.body);
        let same = written.iter().find(|(known, _)| *known == digest);
        let known = same
            .map(|(_, known)| known)
            .or_else(|| self.archived.get(&digest));
        let known = known.filter(|_| !exchange.body.is_empty()).cloned();
        let record = match &known {
            _ if exchange.status == 304 => not_modified(exchange, &id),
            Some(known) => revisit(exchange, &id, &digest, known),
            None => response(exchange, &id, &digest),
        };
        self.pack(&record)?;
        if let Some(headers) = &exchange.request_headers {
            self.pack(&request(exchange, &id, headers))?;
        }
        if !exchange.metadata.is_empty() {
            self.pack(&metadata(exchange, &id))?;
        }
        let is_new = known.is_none() && exchange.status != 304 && !exchange.body.is_empty();
        let known = Known {
            id,
            url: exchange.url.clone(),
            at: exchange.fetched_at,
        };
        Ok(is_new.then_some((digest, known)))
    }
}

const FINISHED_MAX: usize = 1_000;
const PACKED_KEPT_BYTES_MAX: usize = 16 << 20;

impl Drop for WarcWriter {
    fn drop(&mut self) {
        if let Err(error) = self.roll() {
            tracing::warn!("a finished archive keeps the name of an open one: {error}");
        }
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

fn response(exchange: &Exchange, id: &str, digest: &Sha1Digest) -> Vec<u8> {
    let mut block = response_head(exchange).into_bytes();
    block.extend_from_slice(&exchange.body);
    Draft::new("response", id, exchange.fetched_at)
        .header("WARC-Target-URI", &exchange.url)
        .header("WARC-Payload-Digest", &digest_text(digest))
        .header("Content-Type", "application/http;msgtype=response")
        .with_block(&block)
}

/// The same body was archived before: what is written refers to it.
fn revisit(exchange: &Exchange, id: &str, digest: &Sha1Digest, known: &Known) -> Vec<u8> {
    Draft::new("revisit", id, exchange.fetched_at)
        .header("WARC-Target-URI", &exchange.url)
        .header("WARC-Payload-Digest", &digest_text(digest))
        .header(
            "WARC-Profile",
            "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        )
        .header("WARC-Refers-To", &known.id)
        .header("WARC-Refers-To-Target-URI", &known.url)
        .header("WARC-Refers-To-Date", &time_text(known.at))
        .header("Content-Type", "application/http;msgtype=response")
        .with_block(response_head(exchange).as_bytes())
}

/// The server said that it is as it was.
fn not_modified(exchange: &Exchange, id: &str) -> Vec<u8> {
    Draft::new("revisit", id, exchange.fetched_at)
        .header("WARC-Target-URI", &exchange.url)
        .header(
            "WARC-Profile",
            "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
        )
        .header("Content-Type", "application/http;msgtype=response")
        .with_block(response_head(exchange).as_bytes())
}

fn request(exchange: &Exchange, answer: &str, headers: &[(String, String)]) -> Vec<u8> {
    let target = match Url::parse(&exchange.url) {
        Ok(url) => match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        },
        Err(_) => "/".to_owned(),
    };
    let mut block = format!("GET {target} HTTP/1.1\r\n");
    for (name, value) in headers {
        put_header(&mut block, name, value);
    }
    block.push_str("\r\n");
    Draft::new("request", &new_id(), exchange.fetched_at)
        .header("WARC-Target-URI", &exchange.url)
        .header("WARC-Concurrent-To", answer)
        .header("Content-Type", "application/http;msgtype=request")
        .with_block(block.as_bytes())
}

fn metadata(exchange: &Exchange, answer: &str) -> Vec<u8> {
    let pairs = exchange.metadata.iter();
    let block = fields(pairs.map(|(name, value)| (name.as_str(), value.as_str())));
    Draft::new("metadata", &new_id(), exchange.fetched_at)
        .header("WARC-Target-URI", &exchange.url)
        .header("WARC-Concurrent-To", answer)
        .header("Content-Type", "application/warc-fields")
        .with_block(block.as_bytes())
}

/// These say how the body came, and not how it is archived.
const OF_TRANSFER: [&str; 3] = ["content-encoding", "content-length", "transfer-encoding"];

fn response_head(exchange: &Exchange) -> String {
    let status = exchange.status;
    let known = StatusCode::from_u16(status).ok();
    let reason = known.and_then(|status| status.canonical_reason());
    let mut head = format!("HTTP/1.1 {status:03} {}\r\n", reason.unwrap_or("Unknown"));
    let length = exchange.body.len().to_string();
    for (name, value) in &exchange.headers {
        let is_of_transfer = OF_TRANSFER
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other));
        match is_of_transfer {
            true if name.eq_ignore_ascii_case("content-length") && *value == length => {}
            true => put_header(&mut head, &format!("x-orig-{name}"), value),
            false => put_header(&mut head, name, value),
        }
    }
    if status != 304 {
        put_header(&mut head, "content-length", &length);
    }
    head.push_str("\r\n");
    head
}

/// A body that was archived.
#[derive(Clone)]
struct Known {
    id: String,
    url: String,
    at: i64,
}

/// Bodies that were archived of late. Of two halves the older is forgotten when the newer is full.
struct Archived {
    newer: HashMap<Sha1Digest, Known>,
    older: HashMap<Sha1Digest, Known>,
    half_max: usize,
}

impl Archived {
    fn new(bodies_max: usize) -> Self {
        Self {
            newer: HashMap::new(),
            older: HashMap::new(),
            half_max: bodies_max / 2,
        }
    }

    fn get(&self, digest: &Sha1Digest) -> Option<&Known> {
        self.newer.get(digest).or_else(|| self.older.get(digest))
    }

    fn remember(&mut self, written: &mut Vec<(Sha1Digest, Known)>) {
        for (digest, known) in written.drain(..) {
            if self.newer.len() >= self.half_max {
                self.older = std::mem::take(&mut self.newer);
            }
            if self.half_max > 0 {
                self.newer.insert(digest, known);
            }
        }
    }
}
