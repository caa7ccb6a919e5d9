//! Events as JSON, and as the canonical text that keys are.

use std::fmt;
use std::io::Write;

use kernel::limits::BODY_BYTES_MAX;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use super::{Data, EVENT_DEPTH_MAX, EventError, List, Record, Text};

/// Whole numbers up to this size are exact as floating point.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
const TOO_DEEP: &str = "nested too deep";

/// Reads JSON, or else text.
pub(super) fn parse(body: &[u8]) -> Result<Data, EventError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(EventError::TooLarge { bytes: body.len() });
    }
    let text = str::from_utf8(body).map_err(|error| EventError::NotText {
        at: error.valid_up_to(),
    })?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Reader(EVENT_DEPTH_MAX).deserialize(&mut reader);
    match read.and_then(|data| reader.end().map(|()| data)) {
        Ok(data) => Ok(data),
        Err(error) if is_too_deep(&error) => Err(EventError::TooDeep),
        Err(_) => Ok(text.to_owned().into()),
    }
}

fn is_too_deep(error: &serde_json::Error) -> bool {
    error.is_data()
}

/// Reads a value that may have so many levels below it.
struct Reader(usize);

impl Reader {
    fn below<E: Error>(&self) -> Result<Self, E> {
        match self.0.checked_sub(1) {
            Some(levels) => Ok(Self(levels)),
            None => Err(E::custom(TOO_DEEP)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Data;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Data, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Data, E> {
        Data::float(value).map_err(E::custom)
    }

    fn visit_str<E>(self, value: &str) -> Result<Data, E> {
        Ok(value.to_owned().into())
    }

    fn visit_string<E>(self, value: String) -> Result<Data, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Data, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self.below()?)? {
            values.push(value);
        }
        Ok(Data::List(List(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
        let mut fields: Vec<(Text, Data)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(self.below()?)?;
            fields.push((name.into(), value));
        }
        Ok(Data::Record(fields.into_iter().collect::<Record>()))
    }
}

/// Writes JSON without spaces.
pub(super) fn write(data: &Data, body: &mut Vec<u8>) {
    match data {
        Data::Null => body.extend_from_slice(b"null"),
        Data::Bool(value) => {
            body.extend_from_slice(if *value.inner() { b"true" } else { b"false" })
        }
        Data::Int(value) => write_display(*value.inner(), body),
        Data::UInt(value) => write_display(*value.inner(), body),
        Data::Float(value) => write_float(*value.inner(), body),
        Data::Text(text) => write_text(text.inner(), body),
        Data::List(List(values)) => {
            body.push(b'[');
            for (position, value) in values.iter().enumerate() {
                if position > 0 {
                    body.push(b',');
                }
                write(value, body);
            }
            body.push(b']');
        }
        Data::Record(Record(fields)) => {
            body.push(b'{');
            for (position, (name, value)) in fields.iter().enumerate() {
                if position > 0 {
                    body.push(b',');
                }
                write_text(name.inner(), body);
                body.push(b':');
                write(value, body);
            }
            body.push(b'}');
        }
    }
}

fn write_display(value: impl fmt::Display, body: &mut Vec<u8>) {
    // Writing into a vector cannot fail.
    let _ = write!(body, "{value}");
}

fn write_float(value: f64, body: &mut Vec<u8>) {
    let _ = serde_json::to_writer(body, &value);
}

fn write_text(text: &str, body: &mut Vec<u8>) {
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        body.push(b'"');
        body.extend_from_slice(text.as_bytes());
        body.push(b'"');
    } else {
        let _ = serde_json::to_writer(body, text);
    }
}

/// The one text that stands for a value as a key: as JSON, but `1.0` is written as `1`.
pub(super) fn canonical(data: &Data) -> String {
    let mut text = Vec::new();
    write_canonical(data, &mut text);
    // Everything written was text.
    String::from_utf8(text).unwrap_or_default()
}

fn write_canonical(data: &Data, text: &mut Vec<u8>) {
    match data {
        Data::Float(value) if value.fract() == 0.0 && value.abs() <= EXACT_MAX => {
            write_display(*value.inner() as i64, text);
        }
        Data::List(List(values)) => {
            text.push(b'[');
            for (position, value) in values.iter().enumerate() {
                if position > 0 {
                    text.push(b',');
                }
                write_canonical(value, text);
            }
            text.push(b']');
        }
        Data::Record(Record(fields)) => {
            text.push(b'{');
            for (position, (name, value)) in fields.iter().enumerate() {
                if position > 0 {
                    text.push(b',');
                }
                write_text(name.inner(), text);
                text.push(b':');
                write_canonical(value, text);
            }
            text.push(b'}');
        }
        other => write(other, text),
    }
}

/// A position in a list as a JSON pointer writes it: digits without a leading zero.
pub(super) fn index(part: &str) -> Option<usize> {
    let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_plain && (part == "0" || !part.starts_with('0'));
    is_plain.then(|| part.parse().ok())?
}

/// State of plug-ins holds parts of events.
impl Serialize for Data {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value.inner()),
            Self::Int(value) => to.serialize_i64(*value.inner()),
            Self::UInt(value) => to.serialize_u64(*value.inner()),
            Self::Float(value) => to.serialize_f64(*value.inner()),
            Self::Text(text) => to.serialize_str(text.inner()),
            Self::List(List(values)) => {
                let mut list = to.serialize_seq(Some(values.len()))?;
                values
                    .iter()
                    .try_for_each(|value| list.serialize_element(value))?;
                list.end()
            }
            Self::Record(Record(fields)) => {
                let mut map = to.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name.inner(), value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Reader(EVENT_DEPTH_MAX).deserialize(from)
    }
}
