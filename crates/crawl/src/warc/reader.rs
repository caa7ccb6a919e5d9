//! Reading.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::WarcError;

/// Reads the records of an archive, packed or not, one after another.
pub struct WarcReader<'a> {
    from: Box<dyn BufRead + Send + 'a>,
    /// How much of a block is given. The rest is skipped.
    block_bytes_max: u64,
    records: u64,
}

/// A record.
#[derive(Clone, Debug, Default)]
pub struct WarcRecord {
    /// Its headers, as they were written.
    pub headers: Vec<(String, String)>,
    /// Its block, as far as it may be long.
    pub block: Vec<u8>,
    /// Whether the block was longer than that.
    pub is_cut: bool,
}

/// A request or an answer that is the block of a record.
#[derive(Clone, Debug)]
pub struct HttpMessage<'a> {
    /// Its first line.
    pub first_line: &'a str,
    /// Its headers.
    pub headers: Vec<(&'a str, &'a str)>,
    /// What follows them.
    pub body: &'a [u8],
}

const BLOCK_BYTES_MAX: u64 = 64 << 20;
const HEAD_BYTES_MAX: u64 = 64 << 10;

impl WarcReader<'static> {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, WarcError> {
        let file = File::open(path).map_err(|error| WarcError::file(path, error))?;
        Self::new(BufReader::with_capacity(64 << 10, file))
    }
}

impl<'a> WarcReader<'a> {
    /// Reads from anything.
    pub fn new(mut from: impl BufRead + Send + 'a) -> Result<Self, WarcError> {
        let begin = from.fill_buf().map_err(|error| broken(0, &error))?;
        let from: Box<dyn BufRead + Send + 'a> = match begin.starts_with(&[0x1f, 0x8b]) {
            true => Box::new(BufReader::with_capacity(
                64 << 10,
                MultiGzDecoder::new(from),
            )),
            false => Box::new(from),
        };
        Ok(Self {
            from,
            block_bytes_max: BLOCK_BYTES_MAX,
            records: 0,
        })
    }

    /// The same, giving so much of each block.
    #[must_use]
    pub fn with_block_bytes_max(mut self, block_bytes_max: u64) -> Self {
        self.block_bytes_max = block_bytes_max;
        self
    }

    /// The next record, unless the archive ends.
    pub fn next_record(&mut self) -> Result<Option<WarcRecord>, WarcError> {
        let Some(version) = self.first_line()? else {
            return Ok(None);
        };
        if !version.starts_with("WARC/") {
            return Err(self.broken("it does not begin with WARC/ and a version"));
        }
        let mut record = WarcRecord {
            headers: self.headers()?,
            ..WarcRecord::default()
        };
        let length = record.header("content-length").map(str::parse::<u64>);
        let Some(Ok(length)) = length else {
            return Err(self.broken("it does not say how long it is"));
        };
        let given = length.min(self.block_bytes_max);
        let read = self
            .from
            .by_ref()
            .take(given)
            .read_to_end(&mut record.block);
        let read = read.map_err(|error| broken(self.records, &error))? as u64;
        let skipped = std::io::copy(
            &mut self.from.by_ref().take(length - given),
            &mut std::io::sink(),
        );
        let skipped = skipped.map_err(|error| broken(self.records, &error))?;
        if read + skipped < length {
            return Err(self.broken("it ends in the middle"));
        }
        record.is_cut = length > given;
        self.records += 1;
        Ok(Some(record))
    }

    /// The first line of a record, behind the empty ones that end the record before.
    fn first_line(&mut self) -> Result<Option<String>, WarcError> {
        loop {
            match self.line(HEAD_BYTES_MAX)? {
                Some(line) if line.is_empty() => {}
                line => return Ok(line),
            }
        }
    }

    fn headers(&mut self) -> Result<Vec<(String, String)>, WarcError> {
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut left = HEAD_BYTES_MAX;
        loop {
            let Some(line) = self.line(left)? else {
                return Err(self.broken("it ends in its headers"));
            };
            if line.is_empty() {
                return Ok(headers);
            }
            left = left.saturating_sub(line.len() as u64 + 2);
            match (
                line.starts_with([' ', '\t']),
                line.split_once(':'),
                headers.last_mut(),
            ) {
                (true, _, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                (false, Some((name, value)), _) => {
                    headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                _ => return Err(self.broken("a line of its headers has no name")),
            }
        }
    }

    /// A line without its end, unless nothing follows.
    fn line(&mut self, bytes_max: u64) -> Result<Option<String>, WarcError> {
        let mut line = Vec::new();
        let read = self
            .from
            .by_ref()
            .take(bytes_max + 1)
            .read_until(b'\n', &mut line);
        let read = read.map_err(|error| broken(self.records, &error))? as u64;
        if read > bytes_max {
            return Err(self.broken("its headers are too long"));
        }
        if read == 0 {
            return Ok(None);
        }
        while matches!(line.last(), Some(b'\n' | b'\r')) {
            line.pop();
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }

    fn broken(&self, problem: &str) -> WarcError {
        WarcError::Broken {
            record: self.records,
            problem: problem.to_owned(),
        }
    }
}

fn broken(record: u64, error: &std::io::Error) -> WarcError {
    WarcError::Broken {
        record,
        problem: error.to_string(),
    }
}

impl WarcRecord {
    /// A header, whose name may be written in capitals or small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// What kind it is, such as `response`.
    pub fn kind(&self) -> &str {
        self.header("warc-type").unwrap_or_default()
    }

    /// The URL that it is about.
    pub fn target(&self) -> Option<&str> {
        let target = self.header("warc-target-uri")?;
        // Older archives have signs around it.
        Some(target.trim_start_matches('<').trim_end_matches('>'))
    }

    /// The request or the answer, if that is what it holds.
    pub fn http(&self) -> Option<HttpMessage<'_>> {
        let end = memchr::memmem::find(&self.block, b"\r\n\r\n")?;
        let head = std::str::from_utf8(&self.block[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let first_line = lines.next().filter(|line| line.contains("HTTP/"))?;
        let pairs = lines.filter_map(|line| line.split_once(':'));
        Some(HttpMessage {
            first_line,
            headers: pairs
                .map(|(name, value)| (name.trim(), value.trim()))
                .collect(),
            body: &self.block[end + 4..],
        })
    }
}

impl HttpMessage<'_> {
    /// A header, whose name may be written in capitals or small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    }

    /// The status of an answer.
    pub fn status(&self) -> Option<u16> {
        self.first_line.split(' ').nth(1)?.parse().ok()
    }
}
