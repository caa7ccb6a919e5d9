//! Where outputs lead: places, one or several.

use std::fmt;
use std::str::FromStr;

use kernel::{Address, AddressError, StageAddress};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Any flow will do to judge the name of a stage.
const SOME_FLOW: &str = "flow";

/// Where an output leads: to a stage of the same flow, which is only named, or to any other address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// A stage of the same flow.
    Stage(String),
    /// A queue, a topic, or a stage of another flow.
    Address(Address),
}

/// Whether a stage can be called so.
pub(super) fn check_stage_name(name: &str) -> Result<(), AddressError> {
    StageAddress::new(SOME_FLOW, name).map(|_| ())
}

impl Place {
    /// The address that it is in this flow.
    pub fn address(&self, flow: &str) -> Result<Address, AddressError> {
        match self {
            Self::Stage(stage) => Ok(Address::Stage(StageAddress::new(flow, stage)?)),
            Self::Address(address) => Ok(address.clone()),
        }
    }

    /// The stage of this flow that it leads to, if it leads to one.
    pub fn stage_of(&self, flow: &str) -> Option<&str> {
        let of_flow = |stage: &'_ StageAddress| stage.flow().as_str() == flow;
        match self {
            Self::Stage(stage) => Some(stage),
            Self::Address(Address::Stage(stage)) => of_flow(stage).then(|| stage.stage().as_str()),
            Self::Address(Address::Worker(worker)) => {
                of_flow(worker.stage()).then(|| worker.stage().stage().as_str())
            }
            Self::Address(_) => None,
        }
    }

    /// Written as short as it can be in this flow.
    pub(super) fn shortened(self, flow: &str) -> Self {
        match &self {
            Self::Address(Address::Stage(stage)) if stage.flow().as_str() == flow => {
                Self::Stage(stage.stage().as_str().to_owned())
            }
            _ => self,
        }
    }
}

impl FromStr for Place {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains([':', '/']) {
            return text.parse().map(Self::Address);
        }
        check_stage_name(text)?;
        Ok(Self::Stage(text.to_owned()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(stage) => f.write_str(stage),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl TryFrom<String> for Place {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

/// One thing, or a list of them: a single one is written without a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> OneOrMany<T> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(to),
            many => many.serialize(to),
        }
    }
}

impl<'de, T> Deserialize<'de> for OneOrMany<T>
where
    T: TryFrom<String, Error: fmt::Display>,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OneOrManyVisitor(std::marker::PhantomData))
    }
}

struct OneOrManyVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T> Visitor<'de> for OneOrManyVisitor<T>
where
    T: TryFrom<String, Error: fmt::Display>,
{
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let one = T::try_from(text.to_owned()).map_err(E::custom)?;
        Ok(OneOrMany(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            all.push(T::try_from(text).map_err(A::Error::custom)?);
        }
        Ok(OneOrMany(all))
    }
}

impl<T> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OneOrMany".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
            ]
        })
    }
}

/// An output of a stage, as the stage that gets what comes there names it: `stage` or `stage.output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sender {
    /// The stage.
    pub stage: String,
    /// Its output; the usual one if none is named.
    pub output: Option<String>,
}

impl TryFrom<String> for Sender {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        let (stage, output) = match text.split_once('.') {
            Some((stage, output)) => (stage, Some(output.to_owned())),
            None => (text.as_str(), None),
        };
        check_stage_name(stage)?;
        Ok(Self {
            stage: stage.to_owned(),
            output,
        })
    }
}

impl From<Sender> for String {
    fn from(sender: Sender) -> Self {
        match sender.output {
            Some(output) => format!("{}.{output}", sender.stage),
            None => sender.stage,
        }
    }
}
