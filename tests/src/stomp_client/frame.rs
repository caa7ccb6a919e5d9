//! Frames of STOMP 1.2, to bytes and back.

use super::StompError;

/// One frame: a command, headers in their order, a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The command, such as `SEND`.
    pub command: String,
    /// Headers, without escapes.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Frame {
    /// A frame with these headers and no body.
    pub fn new(command: &str, headers: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Self {
            command: command.to_owned(),
            headers: headers.iter().map(owned).collect(),
            body: Vec::new(),
        }
    }

    /// The same frame with a body and its length.
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Self {
        let length = ("content-length".to_owned(), body.len().to_string());
        self.headers.push(length);
        self.body = body.to_vec();
        self
    }

    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the broker marked this message as delivered before.
    pub fn is_redelivered(&self) -> bool {
        self.header("redelivered") == Some("true")
    }

    /// The frame as it goes over the wire.
    pub fn encode(&self) -> Vec<u8> {
        let escaped = !matches!(self.command.as_str(), "CONNECT" | "CONNECTED");
        let text = |text: &str| {
            if escaped {
                escape(text)
            } else {
                text.to_owned()
            }
        };
        let mut head = format!("{}\n", self.command);
        for (name, value) in &self.headers {
            head.push_str(&format!("{}:{}\n", text(name), text(value)));
        }
        head.push('\n');
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes.push(0);
        bytes
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace(':', "\\c")
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('c') => ':',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        };
        out.push(plain);
    }
    out
}

/// The first frame of a buffer and how many bytes it took, if it is there whole.
pub(super) fn parse(buffer: &[u8]) -> Result<Option<(Frame, usize)>, StompError> {
    let Some(head_end) = buffer.windows(2).position(|two| two == b"\n\n") else {
        return Ok(None);
    };
    let malformed = |why: &str| StompError::Malformed(why.to_owned());
    let head = str::from_utf8(&buffer[..head_end]).map_err(|_| malformed("head is not text"))?;
    let mut lines = head.lines();
    let command = lines.next().ok_or_else(|| malformed("no command"))?;
    let escaped = !matches!(command, "CONNECT" | "CONNECTED");
    let text = |text: &str| {
        if escaped {
            unescape(text)
        } else {
            text.to_owned()
        }
    };
    let mut frame = Frame::new(command, &[]);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| malformed(line))?;
        frame.headers.push((text(name), text(value)));
    }
    let rest = &buffer[head_end + 2..];
    let length = match frame.header("content-length") {
        Some(length) => length.parse().map_err(|_| malformed("content-length"))?,
        None => match rest.iter().position(|byte| *byte == 0) {
            Some(length) => length,
            None => return Ok(None),
        },
    };
    if rest.len() <= length {
        return Ok(None);
    }
    if rest[length] != 0 {
        return Err(malformed("no NUL after the body"));
    }
    frame.body = rest[..length].to_vec();
    Ok(Some((frame, head_end + 2 + length + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_went() {
        let frame = Frame::new("SEND", &[("a:b", "c\\d\ne\r")]).with_body(b"x\0y\n\nz");
        let mut bytes = frame.encode();
        let length = bytes.len();
        bytes.extend_from_slice(b"rest");
        assert_eq!(parse(&bytes).unwrap(), Some((frame, length)));
        for cut in 0..length {
            assert!(parse(&bytes[..cut]).unwrap().is_none(), "cut at {cut}");
        }
    }
}
