//! The parts of an event.

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, CelUInt};

use super::{EVENT_DEPTH_MAX, EventError};

/// A text that owns its characters, or has them from the program.
pub type Text = CelString<'static>;

/// Up to so many names are looked through one by one, which is quicker than halving.
const LOOK_THROUGH_MAX: usize = 8;

/// JSON whose leaves are values of expressions.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Data {
    /// Nothing.
    #[default]
    Null,
    /// True or false.
    Bool(CelBool),
    /// A whole number.
    Int(CelInt),
    /// A whole number beyond those of [`Data::Int`].
    UInt(CelUInt),
    /// Any other number; it is finite.
    Float(CelDouble),
    /// Text.
    Text(Text),
    /// Values in order.
    List(List),
    /// Values by name.
    Record(Record),
}

/// Values in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub(super) Vec<Data>);

/// Values by name, sorted by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record(pub(super) Vec<(Text, Data)>);

impl Data {
    /// The field of this name, if this is a record that has it.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Record(record) => record.get(name),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.inner()),
            _ => None,
        }
    }

    /// The number, if it is a whole one that fits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value.inner()),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value.inner() as f64),
            Self::UInt(value) => Some(*value.inner() as f64),
            Self::Float(value) => Some(*value.inner()),
            _ => None,
        }
    }

    /// Whether it is true or false, if it is either.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value.inner()),
            _ => None,
        }
    }

    /// The list, if it is one.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// A record of these fields. The last one of a name counts.
    pub fn record<N: Into<Text>>(fields: impl IntoIterator<Item = (N, Data)>) -> Self {
        Self::Record(fields.into_iter().collect())
    }

    /// This number, if JSON can write it.
    pub fn float(number: f64) -> Result<Self, EventError> {
        match number.is_finite() {
            true => Ok(Self::Float(number.into())),
            false => Err(EventError::NotFinite {
                number: number.to_string(),
            }),
        }
    }

    /// What it is, for messages to people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Int(_) | Self::UInt(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Record(_) => "a record",
        }
    }

    /// About how many bytes its JSON has.
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 4,
            Self::Int(_) | Self::UInt(_) | Self::Float(_) => 8,
            Self::Text(text) => text.inner().len() + 2,
            Self::List(List(values)) => {
                2 + values
                    .iter()
                    .map(|value| value.len_bytes() + 1)
                    .sum::<usize>()
            }
            Self::Record(Record(fields)) => {
                let field =
                    |(name, value): &(Text, Data)| name.inner().len() + 4 + value.len_bytes();
                2 + fields.iter().map(field).sum::<usize>()
            }
        }
    }

    /// Fails if it is nested deeper than an event may be.
    pub fn check_depth(&self) -> Result<(), EventError> {
        match self.is_within(EVENT_DEPTH_MAX) {
            true => Ok(()),
            false => Err(EventError::TooDeep),
        }
    }

    fn is_within(&self, levels: usize) -> bool {
        match self {
            Self::List(List(values)) => {
                levels > 0 && values.iter().all(|value| value.is_within(levels - 1))
            }
            Self::Record(Record(fields)) => {
                levels > 0 && fields.iter().all(|(_, value)| value.is_within(levels - 1))
            }
            _ => true,
        }
    }
}

impl List {
    /// The value at this position.
    pub fn get(&self, position: usize) -> Option<&Data> {
        self.0.get(position)
    }

    /// The values in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Data> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values.
    pub fn into_values(self) -> Vec<Data> {
        self.0
    }
}

impl From<Vec<Data>> for List {
    fn from(values: Vec<Data>) -> Self {
        Self(values)
    }
}

impl Record {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&Data> {
        if self.0.len() <= LOOK_THROUGH_MAX {
            let found = self.0.iter().find(|(known, _)| known.inner() == name);
            return found.map(|(_, value)| value);
        }
        let found = self.position(name).ok()?;
        Some(&self.0[found].1)
    }

    /// Gives this name a value, instead of any that it had.
    pub fn set(&mut self, name: impl Into<Text>, value: Data) {
        let name = name.into();
        match self.position(name.inner()) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// Names and values in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Data)> {
        self.0.iter().map(|(name, value)| (name.inner(), value))
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From fields that are sorted by name, each name once.
    pub(crate) fn from_sorted(fields: Vec<(Text, Data)>) -> Self {
        debug_assert!(fields.windows(2).all(|pair| pair[0].0 < pair[1].0));
        Self(fields)
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0
            .binary_search_by(|(known, _)| known.inner().cmp(name))
    }
}

impl<N: Into<Text>> FromIterator<(N, Data)> for Record {
    fn from_iter<I: IntoIterator<Item = (N, Data)>>(fields: I) -> Self {
        let mut fields: Vec<(Text, Data)> = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        let is_sorted = fields.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !is_sorted {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            // Of equal names, which stand in the order in which they came, the last one stays.
            fields.reverse();
            fields.dedup_by(|a, b| a.0 == b.0);
            fields.reverse();
        }
        Self(fields)
    }
}

impl From<&'static str> for Data {
    fn from(text: &'static str) -> Self {
        Self::Text(Text::from(text))
    }
}

impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::Text(Text::from(text))
    }
}

impl From<bool> for Data {
    fn from(value: bool) -> Self {
        Self::Bool(value.into())
    }
}

impl From<i64> for Data {
    fn from(value: i64) -> Self {
        Self::Int(value.into())
    }
}

impl From<u64> for Data {
    fn from(value: u64) -> Self {
        match i64::try_from(value) {
            Ok(value) => Self::Int(value.into()),
            Err(_) => Self::UInt(value.into()),
        }
    }
}

impl From<Vec<Data>> for Data {
    fn from(values: Vec<Data>) -> Self {
        Self::List(List(values))
    }
}

impl From<Record> for Data {
    fn from(record: Record) -> Self {
        Self::Record(record)
    }
}
