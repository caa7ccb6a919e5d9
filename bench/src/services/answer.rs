//! Answers of HTTP/1.1 as far as these services give them: a status, a length, a body.

/// A header is never longer.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// An answer in a buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: &'a [u8],
    /// How many bytes of the buffer it took.
    pub bytes: usize,
    /// Whether the server ends the connection after it.
    pub closes: bool,
}

/// Why bytes are no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an answer that is understood here: {0}")]
pub struct Malformed(pub String);

/// The answer at the beginning of a buffer, or nothing if it is not there as a whole yet.
pub fn read(buffer: &[u8]) -> Result<Option<Answer<'_>>, Malformed> {
    let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") else {
        return match buffer.len() > HEADER_BYTES_MAX {
            true => Err(Malformed("an endless header".to_owned())),
            false => Ok(None),
        };
    };
    let head = &buffer[..end];
    let malformed = || Malformed(String::from_utf8_lossy(head).into_owned());
    let status = head
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| number(rest.get(..3)?))
        .ok_or_else(malformed)?;
    let (mut length, mut closes) = (None, false);
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                length = number(value.trim_ascii());
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                closes = value.trim_ascii().eq_ignore_ascii_case(b"close");
            }
            _ => {}
        }
    }
    let length = length.ok_or_else(malformed)?;
    let begin = end + 4;
    Ok(buffer.get(begin..begin + length).map(|body| Answer {
        status: status as u16,
        body,
        bytes: begin + length,
        closes,
    }))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: 5\r\n\r\nhello";

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        for end in 0..BYTES.len() {
            assert_eq!(read(&BYTES[..end]), Ok(None), "{end}");
        }
        let two = [BYTES, BYTES].concat();
        let answer = read(&two).expect("it is right").expect("it is whole");
        assert_eq!(
            (answer.status, answer.body, answer.bytes, answer.closes),
            (200, &b"hello"[..], BYTES.len(), false)
        );
    }

    #[test]
    fn the_end_of_a_connection_is_told() {
        let bytes = b"HTTP/1.1 503 Busy\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
        let answer = read(bytes).expect("it is right").expect("it is whole");
        assert_eq!((answer.status, answer.closes), (503, true));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(read(b"SSH-2.0\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(read(&[b'x'; HEADER_BYTES_MAX + 1]).is_err());
    }
}
