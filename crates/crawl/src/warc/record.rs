//! What records are made of: times, names, digests, headers.

use std::fmt::Write as _;

use sha1::{Digest, Sha1};

/// The digest of some bytes.
pub(super) type Sha1Digest = [u8; 20];

pub(super) fn sha1(bytes: &[u8]) -> Sha1Digest {
    Sha1::digest(bytes).into()
}

/// A digest as archives write it: base 32.
pub(super) fn digest_text(digest: &Sha1Digest) -> String {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut text = String::with_capacity(37);
    text.push_str("sha1:");
    // 20 bytes are 4 groups of 40 bits, each of which is 8 digits.
    for group in digest.chunks_exact(5) {
        let bits = group
            .iter()
            .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        for digit in (0..8).rev() {
            text.push(char::from(DIGITS[(bits >> (digit * 5)) as usize & 31]));
        }
    }
    text
}

/// A name for a record that no other has.
pub(super) fn new_id() -> String {
    // The bits that say that it is a random one.
    let bits = fastrand::u128(..) & !(0xf << 76) & !(3 << 62) | 4 << 76 | 2 << 62;
    let digits = format!("{bits:032x}");
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    format!("<urn:uuid:{}>", parts.join("-"))
}

/// A time: year, month, day, hour, minute, second, millisecond.
fn parts(ms: i64) -> [i64; 7] {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Years are counted from March, so that the day that some have is their last.
    let since_march_0 = days + 719_468;
    let era = since_march_0.div_euclid(146_097);
    let day_of_era = since_march_0.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    [
        year,
        month,
        day,
        in_day / 3_600_000,
        in_day / 60_000 % 60,
        in_day / 1_000 % 60,
        in_day % 1_000,
    ]
}

/// A time as records have it.
pub(super) fn time_text(ms: i64) -> String {
    let [year, month, day, hour, minute, second, milli] = parts(ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// A time as names of files have it.
pub(super) fn time_in_name(ms: i64) -> String {
    let [year, month, day, hour, minute, second, milli] = parts(ms);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{milli:03}")
}

/// A record before it is packed.
pub(super) struct Draft {
    head: String,
}

impl Draft {
    pub fn new(kind: &str, id: &str, at: i64) -> Self {
        let date = time_text(at);
        let head = format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {id}\r\nWARC-Date: {date}\r\n"
        );
        Self { head }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        put_header(&mut self.head, name, value);
        self
    }

    /// The record with this block.
    pub fn with_block(mut self, block: &[u8]) -> Vec<u8> {
        put_header(
            &mut self.head,
            "WARC-Block-Digest",
            &digest_text(&sha1(block)),
        );
        let _ = write!(self.head, "Content-Length: {}\r\n\r\n", block.len());
        let mut record = Vec::with_capacity(self.head.len() + block.len() + 4);
        record.extend_from_slice(self.head.as_bytes());
        record.extend_from_slice(block);
        record.extend_from_slice(b"\r\n\r\n");
        record
    }
}

/// Adds a header. A line break in it would begin another one.
pub(super) fn put_header(head: &mut String, name: &str, value: &str) {
    let plain = |sign: char| {
        if matches!(sign, '\r' | '\n' | '\0') {
            ' '
        } else {
            sign
        }
    };
    head.extend(
        name.chars()
            .map(|sign| if sign == ':' { '-' } else { plain(sign) }),
    );
    head.push_str(": ");
    head.extend(value.chars().map(plain));
    head.push_str("\r\n");
}

/// A block of names and values.
pub(super) fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut block = String::new();
    for (name, value) in fields {
        put_header(&mut block, name, value);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let expected = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ];
        for (ms, text) in expected {
            assert_eq!(time_text(ms), text);
        }
        assert_eq!(time_in_name(1_709_251_199_999), "20240229235959999");
    }

    #[test]
    fn digests_are_those_that_others_compute() {
        assert_eq!(
            digest_text(&sha1(b"")),
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
        );
        assert_eq!(
            digest_text(&sha1(b"hello")),
            "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"
        );
    }

    #[test]
    fn ids_are_random_uuids() {
        let (one, other) = (new_id(), new_id());
        assert_ne!(one, other);
        assert_eq!(
            one.len(),
            "<urn:uuid:00000000-0000-4000-8000-000000000000>".len()
        );
        assert_eq!(&one[24..25], "4");
        assert!("89ab".contains(&one[29..30]));
    }

    #[test]
    fn no_value_begins_a_header_of_its_own() {
        let block = fields([("a:b", "c\r\nevil: yes\0")]);
        assert_eq!(block, "a-b: c  evil: yes \r\n");
    }
}
