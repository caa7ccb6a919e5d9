//! `seed`: where a crawl begins.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use flows::plugins::author::{OUT, Plugin, REFUSED, check_file, state};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event, Hold};
use kernel::descriptor::PluginKind;
use kernel::worker::{Failure, Incoming, LogLevel, Provided, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::fetchers::Fetchers;
use crate::fetch::{FetchRequest, FetchSettings, Fetcher};
use crate::sitemap::{self, EntryKind};
use crate::visit::{Ended, Endings, Visit};
use crate::warc::{WarcError, WarcReader};

/// Parameters of `seed`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// URLs.
    #[serde(default)]
    urls: Vec<String>,
    /// A file with a URL in each line, in the folder of flows. Lines that are empty or begin with # do not count.
    file: Option<String>,
    /// Sitemaps, indexes of sitemaps, or feeds, whose pages are taken.
    #[serde(default)]
    sitemaps: Vec<String>,
    /// A WARC file in the folder of flows, of which the addresses of all answers are taken.
    warc: Option<String>,
    /// How sitemaps are fetched.
    #[serde(default)]
    fetch: FetchSettings,
}

pub(super) struct Seed {
    parameters: Parameters,
    file: Option<PathBuf>,
    warc: Option<PathBuf>,
    fetcher: Option<Arc<Fetcher>>,
    /// What was emitted last, until it is dealt with, and the position behind it.
    under_way: Option<(Arc<AtomicBool>, Position)>,
    /// The file, while it is read.
    lines: Option<Lines>,
    /// The URLs of the source that is read, if they have to be read at once.
    loaded: Option<(u32, Vec<String>)>,
}

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Names the parameters; with others it begins anew.
    of: u64,
    source: u32,
    item: u64,
}

const POSITION: &[u8] = b"p";
/// How many URLs make an event.
const URLS_MAX: usize = 200;
/// How long it takes until it looks whether what was emitted is dealt with.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const SITEMAPS_MAX: usize = 10_000;
const SITEMAP_URLS_MAX: usize = 10_000_000;
const LINE_BYTES_MAX: u64 = 1 << 16;

impl Plugin for Seed {
    const ID: &'static str = "seed";
    const KIND: PluginKind = PluginKind::Provider;
    const DESCRIPTION: &'static str = "Gives the URLs with which a crawl begins.\n\n\
        They come from a list, a file, sitemaps or a WARC file, all that are named one after another. It goes on where it was after a restart, and begins \
        anew when its parameters change; URLs that were seen before are left out by `seen-urls`.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "The URLs, many in one event, with the depth 0."),
        (
            REFUSED,
            "Sources that cannot be read, with `url`, `rule` and `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("A site", r#"{"urls": ["https://example.com/"]}"#),
        (
            "All pages that a site lists",
            r#"{"sitemaps": ["https://example.com/sitemap.xml"]}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let path = |field: &str, file: &Option<String>| {
            let path = file.as_ref().map(|file| environment.file(field, file));
            path.transpose()
        };
        let fetcher = match parameters.sitemaps.is_empty() {
            true => None,
            false => Some(Fetchers::of(environment).get(&parameters.fetch)?),
        };
        Ok(Self {
            file: path("file", &parameters.file)?,
            warc: path("warc", &parameters.warc)?,
            fetcher,
            under_way: None,
            lines: None,
            loaded: None,
            parameters,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    let files = [("file", &parameters.file), ("warc", &parameters.warc)];
    for (field, file) in files {
        if let Some(file) = file {
            check_file(field, file)?;
        }
    }
    for sitemap in &parameters.sitemaps {
        Url::parse(sitemap).map_err(|error| {
            ParameterError::new("sitemaps", format!("{sitemap} is no URL: {error}"))
        })?;
    }
    let has_files = parameters.file.is_some() || parameters.warc.is_some();
    match has_files || !parameters.urls.is_empty() || !parameters.sitemaps.is_empty() {
        true => super::fetchers::check(&parameters.fetch),
        false => Err(ParameterError::new(
            "urls",
            "name URLs, or a file, sitemaps or a WARC file that holds them",
        )),
    }
}

/// Notes that what was emitted is dealt with.
struct Noted(Arc<AtomicBool>);

impl Endings for Noted {
    fn ended(&self, _: Ended) {
        self.0.store(true, Ordering::Release);
    }
}

#[async_trait]
impl Worker for Seed {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let mut position = match self.under_way.take() {
            Some((dealt_with, next)) if dealt_with.load(Ordering::Acquire) => {
                state::store(turn, POSITION.to_vec(), &next)?;
                next
            }
            Some(under_way) => {
                self.under_way = Some(under_way);
                return Ok(Provided::After(LOOK_AGAIN));
            }
            None => self.position(turn).await?,
        };
        loop {
            let urls = match self.read(&position, turn).await? {
                Some(urls) => urls,
                None => return Ok(Provided::Done),
            };
            if urls.is_empty() {
                position.source += 1;
                position.item = 0;
                state::store(turn, POSITION.to_vec(), &position)?;
                continue;
            }
            position.item += urls.len() as u64;
            self.emit(urls, position, turn)?;
            return Ok(Provided::After(LOOK_AGAIN));
        }
    }
}

impl Seed {
    async fn position(&self, turn: &Turn) -> Result<Position, Failure> {
        let of = self.name();
        let stored: Option<Position> = state::load(turn, POSITION).await?;
        Ok(stored.filter(|stored| stored.of == of).unwrap_or(Position {
            of,
            ..Position::default()
        }))
    }

    /// Tells these parameters from others.
    fn name(&self) -> u64 {
        let Parameters {
            urls,
            file,
            sitemaps,
            warc,
            fetch: _,
        } = &self.parameters;
        let text = format!("{urls:?} {file:?} {sitemaps:?} {warc:?}");
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    }

    fn emit(&mut self, urls: Vec<String>, next: Position, turn: &mut Turn) -> Result<(), Failure> {
        let urls: Vec<Data> = urls.into_iter().map(Data::from).collect();
        let data = Data::record([
            ("depth", Data::from(0_u64)),
            ("from", "".into()),
            ("urls", urls.into()),
        ]);
        let dealt_with = Arc::new(AtomicBool::new(false));
        let visit = Visit::begin(0, true, Arc::new(Noted(dealt_with.clone())));
        let event = Event::new(data).held_by(Hold::new(visit));
        self.under_way = Some((dealt_with, next));
        turn.emit_value(OUT, Arc::new(event))
    }

    /// The next URLs; an empty list if the source is at its end, none if there is no further source.
    async fn read(
        &mut self,
        position: &Position,
        turn: &mut Turn,
    ) -> Result<Option<Vec<String>>, Failure> {
        let item = usize::try_from(position.item).unwrap_or(usize::MAX);
        let next = |urls: &[String]| {
            let urls = urls.iter().skip(item).take(URLS_MAX);
            Some(urls.cloned().collect())
        };
        match position.source {
            0 => Ok(next(&self.parameters.urls)),
            1 => {
                let Some(path) = self.file.clone() else {
                    return Ok(Some(Vec::new()));
                };
                // If a turn was undone it has read too far, and begins anew.
                let open = self.lines.take().filter(|lines| lines.count == item);
                let reading = move || {
                    let mut lines = match open {
                        Some(lines) => lines,
                        None => Lines::open(&path)?,
                    };
                    let urls = lines.behind(item)?;
                    Ok((lines, urls))
                };
                let read = tokio::task::spawn_blocking(reading).await;
                let read = read.map_err(|error| Failure::new(error.to_string()))?;
                let (lines, urls) = read.map_err(|problem: std::io::Error| {
                    let file = self.parameters.file.as_deref().unwrap_or_default();
                    Failure::new(format!("the file {file} cannot be read: {problem}"))
                })?;
                self.lines = Some(lines);
                Ok(Some(urls))
            }
            2 | 3 => {
                if self.loaded.as_ref().map(|(source, _)| *source) != Some(position.source) {
                    let loaded = match position.source {
                        2 => self.sitemaps(turn).await?,
                        _ => self.warc_addresses().await?,
                    };
                    self.loaded = Some((position.source, loaded));
                }
                let loaded = self.loaded.as_ref().map_or(&[][..], |(_, urls)| urls);
                Ok(next(loaded))
            }
            _ => {
                (self.lines, self.loaded) = (None, None);
                Ok(None)
            }
        }
    }

    /// All pages of all sitemaps.
    async fn sitemaps(&self, turn: &mut Turn) -> Result<Vec<String>, Failure> {
        let Some(fetcher) = &self.fetcher else {
            return Ok(Vec::new());
        };
        let mut urls = Vec::new();
        let mut sitemaps = self.parameters.sitemaps.clone();
        let mut at = 0;
        while let Some(sitemap) = sitemaps.get(at).cloned() {
            at += 1;
            match self.sitemap(fetcher, &sitemap).await {
                Ok(listed) => {
                    for entry in listed.entries {
                        match entry.kind {
                            EntryKind::Sitemap if sitemaps.len() < SITEMAPS_MAX => {
                                sitemaps.push(entry.address);
                            }
                            EntryKind::Sitemap => {}
                            _ if urls.len() < SITEMAP_URLS_MAX => urls.push(entry.address),
                            _ => {}
                        }
                    }
                }
                Err(reason) => {
                    turn.log(LogLevel::Warn, &format!("{sitemap}: {reason}"));
                    let refused = Data::record([
                        ("at", Data::from(turn.now().as_millis())),
                        ("reason", reason.into()),
                        ("rule", "sitemap".into()),
                        ("url", sitemap.into()),
                    ]);
                    turn.emit_value(REFUSED, Arc::new(Event::new(refused)))?;
                }
            }
        }
        Ok(urls)
    }

    async fn sitemap(&self, fetcher: &Fetcher, url: &str) -> Result<sitemap::Listed, String> {
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let fetched = fetcher.fetch(&FetchRequest::new(url)).await;
        let fetched = fetched.map_err(|error| error.to_string())?;
        if fetched.status != 200 {
            return Err(format!(
                "it was answered with the status {}",
                fetched.status
            ));
        }
        let limits = sitemap::Limits::default();
        let mut unpacked = Vec::new();
        let body = match fetched.body.starts_with(&[0x1f, 0x8b]) {
            true => {
                let most = limits.document_bytes_max as u64;
                flate2::read::MultiGzDecoder::new(&fetched.body[..])
                    .take(most)
                    .read_to_end(&mut unpacked)
                    .map_err(|error| format!("it cannot be unpacked: {error}"))?;
                &unpacked[..]
            }
            false => &fetched.body[..],
        };
        let text = String::from_utf8_lossy(body);
        Ok(match text.trim_start().starts_with('<') {
            true => sitemap::read_xml(&text, &limits),
            false => sitemap::read_text(&text, &limits),
        })
    }

    async fn warc_addresses(&self) -> Result<Vec<String>, Failure> {
        let Some(path) = self.warc.clone() else {
            return Ok(Vec::new());
        };
        let reading = move || addresses(&path);
        let read = tokio::task::spawn_blocking(reading).await;
        let read = read.map_err(|error| Failure::new(error.to_string()))?;
        read.map_err(|problem| {
            let file = self.parameters.warc.as_deref().unwrap_or_default();
            Failure::new(format!("the WARC file {file} cannot be read: {problem}"))
        })
    }
}

/// What the answers in a WARC file are the answers to.
fn addresses(path: &Path) -> Result<Vec<String>, WarcError> {
    let mut reader = WarcReader::open(path)?;
    let mut urls = Vec::new();
    while let Some(record) = reader.next_record()? {
        if record.kind() == "response" && urls.len() < SITEMAP_URLS_MAX {
            urls.extend(record.target().map(str::to_owned));
        }
    }
    Ok(urls)
}

/// A file of URLs that is read bit by bit.
struct Lines {
    reader: BufReader<File>,
    /// How many lines that count were read.
    count: usize,
}

impl Lines {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            reader: BufReader::new(File::open(path)?),
            count: 0,
        })
    }

    /// The next ones behind so many.
    fn behind(&mut self, item: usize) -> std::io::Result<Vec<String>> {
        let mut urls = Vec::new();
        while urls.len() < URLS_MAX
            && let Some(url) = self.next()?
        {
            if self.count > item {
                urls.push(url);
            }
        }
        Ok(urls)
    }

    fn next(&mut self) -> std::io::Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut reader = self.reader.by_ref().take(LINE_BYTES_MAX);
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if !text.is_empty() && !text.starts_with('#') {
                self.count += 1;
                return Ok(Some(text.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_bit_by_bit_and_from_where_it_was() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let url = |number: usize| format!("http://a.com/{number}");
        let count = 2 * URLS_MAX + 50;
        let text: String = (0..count)
            .map(|number| format!("  {}\r\n\n# a remark\n", url(number)))
            .collect();
        std::fs::write(file.path(), text).unwrap();
        let mut lines = Lines::open(file.path()).unwrap();
        let mut all = Vec::new();
        loop {
            let some = lines.behind(all.len()).unwrap();
            if some.is_empty() {
                break;
            }
            all.extend(some);
        }
        assert_eq!(all, (0..count).map(url).collect::<Vec<_>>());
        let mut again = Lines::open(file.path()).unwrap();
        assert_eq!(
            again.behind(count - 2).unwrap(),
            [url(count - 2), url(count - 1)]
        );
    }
}
