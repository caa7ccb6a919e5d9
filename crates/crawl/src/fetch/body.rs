//! A body becomes one piece of memory.

use bytes::Bytes;
use hyper::header::HeaderMap;
use url::Url;

use super::decode::{DecodeError, Decoder, Encoding};
use super::error::FetchError;
use super::settings::FetchSettings;

/// Collects a body within its limits.
pub(super) struct Collector<'a> {
    kind: Kind,
    wire_bytes: usize,
    settings: &'a FetchSettings,
    url: &'a Url,
}

enum Kind {
    Plain(Vec<u8>),
    Compressed(Box<Decoder>),
}

impl<'a> Collector<'a> {
    /// Collects a body with these headers, which is this long if that is known.
    pub fn new(
        headers: &HeaderMap,
        wire_bytes: Option<u64>,
        settings: &'a FetchSettings,
        url: &'a Url,
    ) -> Result<Self, FetchError> {
        let mut collector = Self {
            kind: Kind::Plain(Vec::new()),
            wire_bytes: 0,
            settings,
            url,
        };
        let encoding = Encoding::of(headers).map_err(|error| collector.error(error))?;
        let wire_bytes = wire_bytes.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        collector.check_wire(wire_bytes)?;
        match encoding {
            Some(encoding) => {
                let decoder = Decoder::new(
                    encoding,
                    settings.body_bytes_max,
                    settings.decoded_ratio_max,
                );
                let decoder = decoder.map_err(|error| collector.error(error))?;
                collector.kind = Kind::Compressed(Box::new(decoder));
            }
            None => {
                collector.check_body(wire_bytes)?;
                collector.kind = Kind::Plain(Vec::with_capacity(wire_bytes));
            }
        }
        Ok(collector)
    }

    /// More has come.
    pub fn push(&mut self, part: &[u8]) -> Result<(), FetchError> {
        self.wire_bytes += part.len();
        self.check_wire(self.wire_bytes)?;
        match &mut self.kind {
            Kind::Plain(_) => self.check_body(self.wire_bytes)?,
            Kind::Compressed(decoder) => {
                let pushed = decoder.push(part);
                return pushed.map_err(|error| self.error(error));
            }
        }
        if let Kind::Plain(bytes) = &mut self.kind {
            bytes.extend_from_slice(part);
        }
        Ok(())
    }

    /// The body, and how many bytes of it came.
    pub fn finish(mut self) -> Result<(Bytes, usize), FetchError> {
        let mut bytes = match std::mem::replace(&mut self.kind, Kind::Plain(Vec::new())) {
            Kind::Plain(bytes) => bytes,
            Kind::Compressed(decoder) => decoder.finish().map_err(|error| self.error(error))?,
        };
        // Pages wait in queues: what they do not need is given back.
        if bytes.capacity() - bytes.len() > bytes.len() / 4 {
            bytes.shrink_to_fit();
        }
        Ok((bytes.into(), self.wire_bytes))
    }

    fn check_wire(&self, bytes: usize) -> Result<(), FetchError> {
        self.check(bytes, self.settings.wire_bytes_max)
    }

    fn check_body(&self, bytes: usize) -> Result<(), FetchError> {
        self.check(bytes, self.settings.body_bytes_max)
    }

    fn check(&self, bytes: usize, bytes_max: usize) -> Result<(), FetchError> {
        match bytes > bytes_max {
            true => Err(self.too_large(bytes_max)),
            false => Ok(()),
        }
    }

    fn too_large(&self, bytes_max: usize) -> FetchError {
        FetchError::TooLarge {
            url: self.url.to_string(),
            bytes_max,
        }
    }

    fn error(&self, error: DecodeError) -> FetchError {
        match error {
            DecodeError::TooLarge => self.too_large(self.settings.body_bytes_max),
            DecodeError::Bomb {
                wire_bytes,
                decoded_bytes,
            } => FetchError::Bomb {
                url: self.url.to_string(),
                wire_bytes,
                decoded_bytes,
            },
            DecodeError::Broken(reason) => FetchError::BrokenBody {
                url: self.url.to_string(),
                reason,
            },
        }
    }
}
