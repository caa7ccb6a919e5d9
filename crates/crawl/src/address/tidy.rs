//! What is changed about a resolved address, and what is refused.

use std::mem::swap;

use memchr::{memchr, memchr_iter};

use super::error::AddressError;
use super::resolve::Resolved;
use super::{AddressBuffer, Normaliser};

/// Files that servers show for a folder.
const INDEX_FILES: &[&str] = &[
    "index.html",
    "index.htm",
    "index.shtml",
    "index.xhtml",
    "index.php",
    "index.jsp",
    "index.asp",
    "index.aspx",
    "default.htm",
    "default.html",
    "default.asp",
    "default.aspx",
];

/// How much of a segment an error shows.
const SHOWN_CHARACTERS_MAX: usize = 60;

impl Normaliser {
    /// Applies all rules to the address in the buffer.
    pub(super) fn tidy(
        &self,
        resolved: &mut Resolved,
        buffer: &mut AddressBuffer,
    ) -> Result<(), AddressError> {
        tidy_escapes(resolved, buffer);
        if !self.removed_in_path.is_empty() {
            self.remove_from_path(resolved, buffer);
        }
        if resolved.query_start < buffer.text.len() {
            self.tidy_query(resolved, buffer)?;
        }
        if self.rules.index_files_removed {
            remove_index_file(resolved, buffer);
        }
        self.check(resolved, buffer)
    }

    /// Removes parameters such as `;jsessionid=1` from segments.
    fn remove_from_path(&self, resolved: &mut Resolved, buffer: &mut AddressBuffer) {
        let path = &buffer.text[resolved.path_start..resolved.query_start];
        if memchr(b';', path.as_bytes()).is_none() {
            return;
        }
        buffer.spare.clear();
        buffer.spare.push_str(&buffer.text[..resolved.path_start]);
        for segment in path[1..].split('/') {
            let mut parts = segment.split(';');
            let segment_start = buffer.spare.len();
            buffer.spare.push('/');
            buffer.spare.push_str(parts.next().unwrap_or_default());
            for part in parts.filter(|part| !self.removed_in_path.contain(part.as_bytes())) {
                buffer.spare.push(';');
                buffer.spare.push_str(part);
            }
            // `/..;jsessionid=1` was no dot segment before. Made one, it would be resolved by whoever reads the address next.
            if matches!(&buffer.spare[segment_start..], "/." | "/..") {
                buffer.spare.truncate(segment_start);
                buffer.spare.push('/');
                buffer.spare.push_str(segment);
            }
        }
        let path_end = buffer.spare.len();
        buffer.spare.push_str(&buffer.text[resolved.query_start..]);
        resolved.query_start = path_end;
        swap(&mut buffer.text, &mut buffer.spare);
    }

    fn tidy_query(
        &self,
        resolved: &mut Resolved,
        buffer: &mut AddressBuffer,
    ) -> Result<(), AddressError> {
        let start = resolved.query_start + 1;
        let query = &buffer.text[start..];
        let removed = |parameter: &str| self.removed.contain(parameter.as_bytes());
        if query.split('&').any(removed) {
            buffer.spare.clear();
            let kept = query.split('&').filter(|parameter| !removed(parameter));
            join(kept, &mut buffer.spare);
            let some_kept = query.split('&').any(|parameter| !removed(parameter));
            buffer
                .text
                .truncate(if some_kept { start } else { start - 1 });
            buffer.text.push_str(&buffer.spare);
        }
        let Some(query) = buffer.text.get(start..) else {
            return Ok(());
        };
        let most = self.rules.query_parameters_max;
        let parameters = memchr_iter(b'&', query.as_bytes()).count() + 1;
        if parameters > most {
            return Err(AddressError::TooManyParameters { parameters, most });
        }
        if self.rules.query_sorted && parameters > 1 {
            let mut sorted: Vec<&str> = query.split('&').collect();
            // The order of equal names may mean something, so it stays.
            sorted.sort_by_key(|parameter| parameter.split('=').next());
            buffer.spare.clear();
            join(sorted.into_iter(), &mut buffer.spare);
            buffer.text.truncate(start);
            buffer.text.push_str(&buffer.spare);
        }
        Ok(())
    }

    fn check(&self, resolved: &Resolved, buffer: &mut AddressBuffer) -> Result<(), AddressError> {
        let (bytes, most) = (buffer.text.len(), self.rules.url_bytes_max);
        if bytes > most {
            return Err(AddressError::TooLong { bytes, most });
        }
        let path = &buffer.text[resolved.path_start..resolved.query_start];
        let segments = memchr_iter(b'/', path.as_bytes()).count();
        let most = self.rules.path_segments_max;
        if segments > most {
            return Err(AddressError::PathTooDeep { segments, most });
        }
        match segments > self.rules.segment_repeats_max {
            true => self.check_repeats(path, &mut buffer.segments),
            false => Ok(()),
        }
    }

    fn check_repeats(
        &self,
        path: &str,
        segments: &mut Vec<(u32, u32)>,
    ) -> Result<(), AddressError> {
        let most = self.rules.segment_repeats_max;
        segments.clear();
        let mut start = 1;
        let ends = memchr_iter(b'/', &path.as_bytes()[1..]).map(|at| at + 1);
        for end in ends.chain([path.len()]) {
            segments.push((start as u32, end as u32));
            start = end + 1;
        }
        let text = |&(start, end): &(u32, u32)| &path[start as usize..end as usize];
        for (index, segment) in segments.iter().map(text).enumerate() {
            let others = segments[index + 1..].iter().map(text);
            let times = 1 + others.filter(|other| *other == segment).count();
            if times > most {
                let segment = segment.chars().take(SHOWN_CHARACTERS_MAX).collect();
                return Err(AddressError::SegmentRepeated {
                    segment,
                    times,
                    most,
                });
            }
        }
        Ok(())
    }
}

fn join<'t>(parameters: impl Iterator<Item = &'t str>, out: &mut String) {
    for (index, parameter) in parameters.enumerate() {
        if index > 0 {
            out.push('&');
        }
        out.push_str(parameter);
    }
}

/// Decodes escapes of characters that need none, and writes the others in upper case. A `%` that begins no escape becomes `%25`:
/// otherwise it might become part of one when what follows it is decoded.
fn tidy_escapes(resolved: &mut Resolved, buffer: &mut AddressBuffer) {
    let AddressBuffer { text, spare, .. } = buffer;
    let Some(first) = memchr(b'%', &text.as_bytes()[resolved.path_start..]) else {
        return;
    };
    spare.clear();
    let mut copied = 0;
    let mut next = Some(resolved.path_start + first);
    while let Some(at) = next {
        spare.push_str(&text[copied..at]);
        copied = match escaped(&text.as_bytes()[at..]) {
            Some(octet) if is_unreserved(octet) => {
                spare.push(char::from(octet));
                at + 3
            }
            Some(octet) => {
                push_escape(spare, octet);
                at + 3
            }
            None => {
                push_escape(spare, b'%');
                at + 1
            }
        };
        next = memchr(b'%', &text.as_bytes()[copied..]).map(|distance| copied + distance);
    }
    spare.push_str(&text[copied..]);
    swap(text, spare);
    let path_and_query = &text.as_bytes()[resolved.path_start..];
    let path_bytes = memchr(b'?', path_and_query).unwrap_or(path_and_query.len());
    resolved.query_start = resolved.path_start + path_bytes;
}

/// The octet that the escape at the beginning stands for.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match bytes {
        [b'%', high, low, ..] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    }
}

fn push_escape(out: &mut String, octet: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(octet >> 4)]));
    out.push(char::from(DIGITS[usize::from(octet & 15)]));
}

/// RFC 3986, section 2.3.
fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}

fn remove_index_file(resolved: &mut Resolved, buffer: &mut AddressBuffer) {
    let path = &buffer.text[resolved.path_start..resolved.query_start];
    let file_start = path.rfind('/').map_or(0, |slash| slash + 1);
    let file = &path[file_start..];
    if INDEX_FILES
        .iter()
        .any(|name| name.eq_ignore_ascii_case(file))
    {
        let start = resolved.path_start + file_start;
        buffer.text.replace_range(start..resolved.query_start, "");
        resolved.query_start = start;
    }
}
