//! From JSON to values, with the position of each field.

use serde_json::Value;

use super::problem::{Path, Positions, Problems, Spot};

/// Reads JSON. What cannot be read is a problem; then there is no value.
pub(super) fn read_json(
    text: &[u8],
    positions: &mut Positions,
    problems: &mut Problems,
) -> Option<Value> {
    match serde_json::from_slice(text) {
        Ok(value) => {
            let mut scan = Scan {
                text,
                at: 0,
                positions,
            };
            scan.value(&Path::default());
            Some(value)
        }
        Err(error) => {
            let said = error.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            let place = (error.line().max(1), error.column().max(1));
            problems.error_at(place, format_args!("this is no JSON: {said}"));
            None
        }
    }
}

/// Finds the fields in a text that is known to be JSON, and so to be nested no deeper than a parser allows.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    positions: &'a mut Positions,
}

impl Scan<'_> {
    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn value(&mut self, path: &Path) {
        match self.peek() {
            Some(b'{') => self.object(path),
            Some(b'[') => self.list(path),
            Some(b'"') => {
                self.string();
            }
            _ => {
                let ends = |byte: &u8| b",]} \t\r\n".contains(byte);
                let rest = &self.text[self.at..];
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
    }

    fn object(&mut self, path: &Path) {
        self.at += 1;
        while self.peek() == Some(b'"') {
            let name = self.at;
            let below = path.to(self.string());
            // The colon.
            self.peek();
            self.at += 1;
            self.peek();
            let value = self.at;
            self.positions.note(&below, Spot { name, value });
            self.value(&below);
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn list(&mut self, path: &Path) {
        self.at += 1;
        let mut index = 0;
        while let Some(next) = self.peek() {
            if next == b']' {
                break;
            }
            let (below, at) = (path.to(index), self.at);
            let spot = Spot {
                name: at,
                value: at,
            };
            self.positions.note(&below, spot);
            self.value(&below);
            if self.peek() == Some(b',') {
                self.at += 1;
            }
            index += 1;
        }
        self.at += 1;
    }

    fn string(&mut self) -> String {
        let begin = self.at;
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            self.at += match byte {
                b'\\' => 2,
                _ => 1,
            };
            if *byte == b'"' {
                break;
            }
        }
        let text = self.text.get(begin..self.at).unwrap_or_default();
        serde_json::from_slice(text).unwrap_or_default()
    }
}
