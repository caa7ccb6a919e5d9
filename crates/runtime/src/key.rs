//! Keys of messages, and the bucket that a key belongs to.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use kernel::Message;
use kernel::worker::{Failure, Incoming, KeyAt, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod pointer;

pub use pointer::JsonPointer;

/// How many buckets every keyed stage has.
pub const BUCKETS: u32 = 128;

/// The bucket of a key: the lowest seven bits of its XXH3 hash (64 bits, seed zero).
///
/// This never changes, so clients may compute it themselves.
pub fn bucket_of(key: &[u8]) -> u32 {
    (xxhash_rust::xxh3::xxh3_64(key) % u64::from(BUCKETS)) as u32
}

/// Where the key of a message is found.
///
/// As text: `header:NAME`, `json:/pointer` or `body`.
///
/// A value in JSON becomes a key like this: a string is its own text, a number is written with as
/// few digits as it needs (`1.0` and `1` are the same key), an object or array is written without
/// spaces and with sorted names. `null` is no key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum KeyRule {
    /// The value of a header.
    Header(Box<str>),
    /// A value within the body, which is JSON.
    Json(JsonPointer),
    /// The whole body, whatever it is.
    Body,
}

/// Why a text says no place of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} does not say where the key is: write header:NAME, json:/POINTER or body")]
pub struct KeyRuleError {
    text: String,
}

impl KeyRule {
    /// The key of this message. Fails, with what was looked for, if it has none.
    pub fn key<'a>(&self, message: &'a Message) -> Result<Cow<'a, [u8]>, Failure> {
        match self {
            Self::Body => Ok(Cow::Borrowed(&message.body)),
            Self::Header(name) => match message.headers.get(name) {
                Some(value) => Ok(Cow::Borrowed(value.as_bytes())),
                None => Err(self.no_key(format_args!("the header {name:?} is missing"))),
            },
            Self::Json(pointer) => match pointer.find(&message.body) {
                Ok(Some(Cow::Borrowed(text))) => Ok(Cow::Borrowed(text.as_bytes())),
                Ok(Some(Cow::Owned(text))) => Ok(Cow::Owned(text.into_bytes())),
                Ok(None) => Err(self.no_key(format_args!("the body has nothing there"))),
                Err(error) => Err(self.no_key(format_args!("the body is not JSON: {error}"))),
            },
        }
    }

    /// The key of what a worker gets, whether it holds a body or a value.
    pub fn key_of<'a>(&self, incoming: &'a Incoming) -> Result<Cow<'a, [u8]>, Failure> {
        match &incoming.value {
            Some(value) => self.key_of_value(&**value, &incoming.message),
            None => self.key(&incoming.message),
        }
    }

    /// The key of a value; the message around it has only headers.
    pub(crate) fn key_of_value<'a>(
        &self,
        value: &'a dyn Value,
        around: &Message,
    ) -> Result<Cow<'a, [u8]>, Failure> {
        if let Self::Json(pointer) = self {
            match value.key_at(pointer.parts()) {
                KeyAt::Text(Cow::Borrowed(text)) => return Ok(Cow::Borrowed(text.as_bytes())),
                KeyAt::Text(Cow::Owned(text)) => return Ok(Cow::Owned(text.into_bytes())),
                KeyAt::Nothing => {
                    return Err(self.no_key(format_args!("the event has nothing there")));
                }
                KeyAt::Unknown => {}
            }
        }
        let message = Message {
            body: value.encode(),
            ..around.clone()
        };
        self.key(&message).map(|key| Cow::Owned(key.into_owned()))
    }

    fn no_key(&self, why: fmt::Arguments<'_>) -> Failure {
        Failure::new(format!(
            "the message has no key; this stage takes it from {self}, but {why}"
        ))
    }
}

impl FromStr for KeyRule {
    type Err = KeyRuleError;

    fn from_str(text: &str) -> Result<Self, KeyRuleError> {
        let error = || KeyRuleError {
            text: text.to_owned(),
        };
        if text == "body" {
            return Ok(Self::Body);
        }
        match text.split_once(':').ok_or_else(error)? {
            ("header", name) if !name.is_empty() => Ok(Self::Header(name.into())),
            ("json", pointer) => JsonPointer::parse(pointer)
                .map(Self::Json)
                .ok_or_else(error),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for KeyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::Body => f.write_str("body"),
        }
    }
}

impl TryFrom<String> for KeyRule {
    type Error = KeyRuleError;

    fn try_from(text: String) -> Result<Self, KeyRuleError> {
        text.parse()
    }
}

impl From<KeyRule> for String {
    fn from(rule: KeyRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Headers;

    fn rule(text: &str) -> KeyRule {
        text.parse().unwrap()
    }

    fn key(text: &str, body: &'static str) -> Result<String, Failure> {
        let message = Message::new(body);
        let key = rule(text).key(&message)?;
        Ok(String::from_utf8(key.into_owned()).unwrap())
    }

    #[test]
    fn buckets_are_those_that_clients_compute() {
        // The hashes are those of the reference implementation of XXH3, which treats keys of
        // different lengths differently.
        for (key, hash, bucket) in [
            ("", 0x2D06_8005_38D3_94C2_u64, 66),
            ("a", 0xE6C6_32B6_1E96_4E1F, 31),
            ("abc", 0x78AF_5F94_892F_3950, 80),
            ("customer-42", 0xF409_25AC_7F7B_5E61, 97),
            (&"customer-".repeat(10), 0x99C2_BC0E_080B_0485, 5),
            (&"x".repeat(1_000), 0xC0A4_877B_962C_BA82, 2),
        ] {
            assert_eq!(xxhash_rust::xxh3::xxh3_64(key.as_bytes()), hash);
            assert_eq!(bucket_of(key.as_bytes()), bucket);
        }
    }

    #[test]
    fn every_bucket_gets_its_share_of_keys() {
        let mut keys = [0_u32; BUCKETS as usize];
        for number in 0..128_000 {
            keys[bucket_of(format!("customer-{number}").as_bytes()) as usize] += 1;
        }
        let fits = |count: &u32| (800..1_200).contains(count);
        assert!(keys.iter().all(fits), "{keys:?}");
    }

    #[test]
    fn rules_are_read_and_written_alike() {
        for text in [
            "header:customer",
            "header:a:b",
            "json:",
            "json:/a/b",
            "json:/a~1b/m~0n/0",
            "body",
        ] {
            assert_eq!(rule(text).to_string(), text);
            let stored = serde_json::to_string(&rule(text)).unwrap();
            assert_eq!(stored, format!("{text:?}"));
            assert_eq!(
                serde_json::from_str::<KeyRule>(&stored).unwrap(),
                rule(text)
            );
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_forms() {
        let deep = format!("json:{}", "/a".repeat(200));
        for text in [
            "", "header", "header:", "json", "json:a", "json:/~2", "xml:/a", "Body", &deep,
        ] {
            let error = text.parse::<KeyRule>().unwrap_err().to_string();
            assert!(error.contains("header:NAME"), "{error}");
        }
    }

    #[test]
    fn headers_and_bodies_are_keys() {
        let headers = Headers::from_pairs([("customer", "17")]).unwrap();
        let message = Message::new("all of it").with_headers(headers);
        let found = rule("header:customer").key(&message).unwrap();
        assert_eq!(&*found, b"17");
        assert!(matches!(found, Cow::Borrowed(_)));
        assert_eq!(&*rule("body").key(&message).unwrap(), b"all of it");
        let failure = rule("header:Customer").key(&message).unwrap_err();
        assert!(failure.reason.contains("\"Customer\""), "{failure}");
    }

    #[test]
    fn values_in_json_are_keys() {
        let body = r#"{"a":{"b":[10,{"c":"x"}],"":"empty"},"a/b":1,"m~n":2}"#;
        assert_eq!(key("json:/a/b/0", body).unwrap(), "10");
        assert_eq!(key("json:/a/b/1/c", body).unwrap(), "x");
        assert_eq!(key("json:/a/", body).unwrap(), "empty");
        assert_eq!(key("json:/a~1b", body).unwrap(), "1");
        assert_eq!(key("json:/m~0n", body).unwrap(), "2");
        assert_eq!(key("json:", "\"all\"").unwrap(), "all");
        assert_eq!(key("json:/a", r#"{"a":1,"a":2}"#).unwrap(), "2");
    }

    #[test]
    fn equal_values_are_equal_keys() {
        for (value, expected) in [
            ("1.0", "1"),
            ("-0.0", "0"),
            ("1e3", "1000"),
            ("0.5", "0.5"),
            ("18446744073709551615", "18446744073709551615"),
            ("-7", "-7"),
            ("true", "true"),
            (r#""a\u00e9\n""#, "aé\n"),
            (
                r#"{ "b" : [ 1.0, null ], "a" : "\u0041" }"#,
                r#"{"a":"A","b":[1,null]}"#,
            ),
            ("[ ]", "[]"),
        ] {
            let message = Message::new(format!("{{\"k\": {value}}}"));
            let key = rule("json:/k").key(&message).unwrap();
            assert_eq!(str::from_utf8(&key).unwrap(), expected);
        }
    }

    #[test]
    fn a_string_without_escapes_is_not_copied() {
        let message = Message::new(r#"{"k":"plain"}"#);
        let key = rule("json:/k").key(&message).unwrap();
        assert!(matches!(key, Cow::Borrowed(b"plain")));
    }

    #[test]
    fn a_message_without_its_key_says_what_was_looked_for() {
        for body in [
            r#"{}"#,
            r#"{"a":null}"#,
            r#"{"a":{"c":1}}"#,
            r#"[1]"#,
            r#"{"a":[1]}"#,
            "7",
            "",
            "{",
            r#"{"a":{"b":1}} x"#,
        ] {
            let failure = key("json:/a/b", body).unwrap_err();
            assert!(failure.reason.contains("json:/a/b"), "{failure}");
            assert!(failure.leaves_instance_sound());
        }
        for index in ["01", "+1", "-", "7", "99999999999999999999"] {
            assert!(key(&format!("json:/{index}"), "[1,2]").is_err(), "{index}");
        }
    }

    #[test]
    fn deep_json_is_refused_not_followed() {
        let deep = "[".repeat(100_000);
        assert!(rule("json:/0").key(&Message::new(deep.clone())).is_err());
        assert!(rule("json:").key(&Message::new(deep)).is_err());
    }
}
