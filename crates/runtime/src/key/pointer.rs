//! JSON pointers (RFC 6901): finding one value in a text without building the whole of it.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

/// How deep a pointer may lead; JSON that is nested deeper is not read either.
const DEPTH_MAX: usize = 120;

/// Whole numbers up to this size are exact as floating point.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A place within a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer(Box<[Box<str>]>);

impl JsonPointer {
    /// Reads a pointer as RFC 6901 writes it; none if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Box::default()));
        }
        let parts: Option<Vec<Box<str>>> = text.strip_prefix('/')?.split('/').map(part).collect();
        let parts = parts.filter(|parts| parts.len() <= DEPTH_MAX)?;
        Some(Self(parts.into()))
    }

    /// Its parts without their escapes, from the outside in.
    pub fn parts(&self) -> &[Box<str>] {
        &self.0
    }

    /// The value at this place as canonical text; none if there is none, or `null`.
    pub fn find<'a>(&self, json: &'a [u8]) -> Result<Option<Cow<'a, str>>, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let found = Seek(&self.0).deserialize(&mut reader)?;
        reader.end()?;
        Ok(found)
    }
}

/// One part without its escapes; none if an escape is wrong.
fn part(text: &str) -> Option<Box<str>> {
    let mut escapes = text.split('~').skip(1);
    escapes
        .all(|after| after.starts_with(['0', '1']))
        .then(|| text.replace("~1", "/").replace("~0", "~").into())
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|part| write!(f, "/{}", part.replace('~', "~0").replace('/', "~1")))
    }
}

/// Looks for the value that these parts lead to.
struct Seek<'p>(&'p [Box<str>]);

impl Seek<'_> {
    /// What a value without parts is worth: something if the pointer ends here.
    fn leaf<'de>(self, text: impl Into<Cow<'de, str>>) -> Option<Cow<'de, str>> {
        self.0.is_empty().then(|| text.into())
    }
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(self.leaf(if value { "true" } else { "false" }))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.leaf(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.leaf(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(self.leaf(number(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.leaf(value.to_owned()))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(self.leaf(value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((wanted, rest)) = self.0.split_first() else {
            let value = Value::deserialize(MapAccessDeserializer::new(map))?;
            return Ok(Some(canonical(&value).into()));
        };
        let mut found = None;
        while let Some(is_wanted) = map.next_key_seed(NameIs(wanted))? {
            if is_wanted {
                found = map.next_value_seed(Seek(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Some((wanted, rest)) = self.0.split_first() else {
            let value = Value::deserialize(SeqAccessDeserializer::new(list))?;
            return Ok(Some(canonical(&value).into()));
        };
        let mut found = None;
        if let Some(wanted) = index(wanted) {
            for _ in 0..wanted {
                if list.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(None);
                }
            }
            found = list.next_element_seed(Seek(rest))?.flatten();
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Compares the name of a member without copying it.
struct NameIs<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIs<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// A position in an array: digits without a leading zero.
fn index(part: &str) -> Option<usize> {
    let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_plain && (part == "0" || !part.starts_with('0'));
    is_plain.then(|| part.parse().ok())?
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        return (value as i64).to_string();
    }
    Value::from(value).to_string()
}

/// The one text for this value: no spaces, sorted names.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

/// Calls itself as deep as the value is nested, which the reader has limited.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(value) => match value.as_f64().filter(|_| value.is_f64()) {
            Some(value) => text.push_str(&number(value)),
            None => text.push_str(&value.to_string()),
        },
        Value::Array(values) => {
            text.push('[');
            for (position, value) in values.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_canonical(value, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (position, (name, value)) in members.into_iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        other => text.push_str(&other.to_string()),
    }
}
