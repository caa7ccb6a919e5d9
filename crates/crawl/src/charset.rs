//! Bytes of pages to UTF-8.
//!
//! What a page is written in is told, in this order, by: a byte order mark, the charset of the HTTP header, the
//! `<meta charset>` in the first 1,024 bytes as the HTML standard reads it, the XML declaration, and else by its bytes.
//!
//! ```
//! use crawl::charset::{Source, decode};
//!
//! let decoded = decode(b"<meta charset=iso-8859-2>\xe9", None, None);
//! assert_eq!((&*decoded.text, decoded.charset, decoded.source), ("<meta charset=iso-8859-2>é", "ISO-8859-2", Source::Meta));
//! // What is UTF-8 is not copied.
//! assert!(matches!(decode("é".as_bytes(), None, None).text, std::borrow::Cow::Borrowed("é")));
//! ```

mod declared;

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};

/// A page in UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The text, without a byte order mark.
    pub text: Cow<'a, str>,
    /// The name of what it was written in, such as `UTF-8` or `windows-1252`.
    pub charset: &'static str,
    /// How that is known.
    pub source: Source,
    /// How many sequences of bytes had no meaning there; each of them became U+FFFD.
    pub broken: usize,
}

/// How the charset of a page is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By the mark at its beginning.
    ByteOrderMark,
    /// By the HTTP header.
    Header,
    /// By `<meta charset>` or `<meta http-equiv=content-type>`.
    Meta,
    /// By `<?xml encoding=…?>`.
    XmlDeclaration,
    /// By its bytes: they are UTF-8, or look like something else.
    Bytes,
}

/// How many bytes are looked at to guess a charset.
const GUESSED_BYTES_MAX: usize = 64 * 1_024;

/// Decodes a page. `header` is the charset that HTTP names, if any; the top-level domain, such as `jp`, helps to guess.
pub fn decode<'a>(bytes: &'a [u8], header: Option<&str>, domain: Option<&str>) -> Decoded<'a> {
    let (encoding, source, mark) = encoding_of(bytes, header, domain);
    let bytes = &bytes[mark..];
    let (text, broken) = match encoding == UTF_8 {
        true => from_utf8(bytes),
        false => from_other(bytes, encoding),
    };
    Decoded {
        text,
        charset: encoding.name(),
        source,
        broken,
    }
}

/// The charset of a page, how it is known, and how many bytes its byte order mark has.
fn encoding_of(
    bytes: &[u8],
    header: Option<&str>,
    domain: Option<&str>,
) -> (&'static Encoding, Source, usize) {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return (encoding, Source::ByteOrderMark, mark);
    }
    let of_header = header.and_then(|label| Encoding::for_label(label.trim().as_bytes()));
    let known = of_header
        .map(|encoding| (encoding, Source::Header))
        .or_else(|| declared::in_meta(bytes).map(|encoding| (encoding, Source::Meta)))
        .or_else(|| declared::in_xml(bytes).map(|encoding| (encoding, Source::XmlDeclaration)));
    let (encoding, source) = known.unwrap_or_else(|| (guess(bytes, domain), Source::Bytes));
    (encoding, source, 0)
}

fn guess(bytes: &[u8], domain: Option<&str>) -> &'static Encoding {
    if str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    let sample = &bytes[..bytes.len().min(GUESSED_BYTES_MAX)];
    detector.feed(sample, sample.len() == bytes.len());
    // A dot or a capital letter in it would be a mistake of the caller that the detector does not forgive.
    let is_fine = |domain: &&str| {
        !domain.contains('.') && domain.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let domain = domain.filter(is_fine).map(str::as_bytes);
    detector.guess(domain, Utf8Detection::Allow)
}

fn from_utf8(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    match str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), 0),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 64);
            let mut broken = 0;
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                if !chunk.invalid().is_empty() {
                    text.push(char::REPLACEMENT_CHARACTER);
                    broken += 1;
                }
            }
            (Cow::Owned(text), broken)
        }
    }
}

fn from_other<'a>(bytes: &'a [u8], encoding: &'static Encoding) -> (Cow<'a, str>, usize) {
    if let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(bytes) {
        return (text, 0);
    }
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 2);
    let broken = replace_broken(
        encoding.new_decoder_without_bom_handling(),
        bytes,
        &mut text,
    );
    (Cow::Owned(text), broken)
}

/// Adds all of it, and gives how many sequences were broken.
fn replace_broken(mut decoder: Decoder, bytes: &[u8], text: &mut String) -> usize {
    let mut rest = bytes;
    let mut broken = 0;
    loop {
        let (result, used) = decoder.decode_to_string_without_replacement(rest, text, true);
        rest = &rest[used..];
        match result {
            DecoderResult::InputEmpty => return broken,
            DecoderResult::OutputFull => text.reserve(rest.len() + 64),
            DecoderResult::Malformed(..) => {
                text.reserve(rest.len() + 64);
                text.push(char::REPLACEMENT_CHARACTER);
                broken += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
