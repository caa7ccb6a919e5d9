//! Events as values of expressions: lists and records are looked into where they lie.

use std::any::Any;

use cel::ExecutionError;
use cel::common::traits::{self, Adder, Container, Indexer, Iterable, Sizer, Zeroer};
use cel::common::types::{
    self, CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelMapKey, CelNull,
    CelOptional, CelString, CelTimestamp, CelUInt, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};

use super::{Data, EventError, List, Record, Text};

static NULL: CelNull = CelNull;

impl Data {
    /// As a value of expressions, without a copy.
    pub(crate) fn value<'v>(&self) -> &(dyn Val + 'v) {
        match self {
            Self::Null => &NULL,
            Self::Bool(value) => value,
            Self::Int(value) => value,
            Self::UInt(value) => value,
            Self::Float(value) => value,
            Self::Text(text) => text,
            Self::List(list) => list,
            Self::Record(record) => record,
        }
    }
}

impl Val for List {
    fn get_type(&self) -> &Type {
        &types::LIST_TYPE
    }

    fn cel_type() -> &'static Type {
        &types::LIST_TYPE
    }

    fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        if let Some(other) = other.downcast_ref::<Self>() {
            let pairs = self.0.iter().zip(&other.0);
            return self.0.len() == other.0.len()
                && pairs.into_iter().all(|(a, b)| a.value().equals(b.value()));
        }
        other.downcast_ref::<CelList<'_>>().is_some_and(|other| {
            let pairs = self.0.iter().zip(other.inner());
            self.0.len() == other.inner().len()
                && pairs.into_iter().all(|(a, b)| a.value().equals(b.as_ref()))
        })
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for List {}

impl Adder for List {
    fn add<'b, 'v>(&'b self, rhs: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(rhs) = rhs.as_iterable() else {
            return Err(wrong_type(rhs, "list"));
        };
        let mut values: Vec<Box<dyn Val + 'v>> = self
            .0
            .iter()
            .map(|value| value.value().clone_as_boxed())
            .collect();
        let mut more = rhs.iter();
        while let Some(value) = more.next() {
            values.push(value.clone_as_boxed());
        }
        drop(more);
        Ok(CowVal::owned(CelList::from(values)))
    }
}

impl Container for List {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.0.iter().any(|known| known.value().equals(value)))
    }
}

impl Indexer for List {
    fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let position = if let Some(int) = index.downcast_ref::<CelInt>() {
            usize::try_from(*int.inner()).ok()
        } else if let Some(uint) = index.downcast_ref::<CelUInt>() {
            usize::try_from(*uint.inner()).ok()
        } else if let Some(double) = index.downcast_ref::<CelDouble>() {
            let whole = double.fract() == 0.0 && **double >= 0.0;
            whole.then_some(*double.inner() as usize)
        } else {
            return Err(wrong_type(index, "int"));
        };
        match position.and_then(|position| self.0.get(position)) {
            Some(value) => Ok(CowVal::Borrowed(value.value())),
            None => Err(ExecutionError::IndexOutOfBounds(
                index.try_into().unwrap_or(cel::Value::Null),
            )),
        }
    }

    fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Indexer::get(&*self, index).map(CowVal::into_owned)
    }
}

impl Iterable for List {
    fn iter<'b, 'v>(&'b self) -> Box<dyn traits::Iterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Values(self.0.iter()))
    }
}

struct Values<'b>(std::slice::Iter<'b, Data>);

impl<'b, 'v> traits::Iterator<'b, 'v> for Values<'b> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        self.0.next().map(Data::value)
    }
}

impl Sizer for List {
    fn size(&self) -> CelInt {
        (self.0.len() as i64).into()
    }
}

impl Zeroer for List {
    fn is_zero_value(&self) -> bool {
        self.0.is_empty()
    }
}

impl Val for Record {
    fn get_type(&self) -> &Type {
        &types::MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &types::MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        let Some(size) = other.as_sizer().map(Sizer::size) else {
            return false;
        };
        let is_map = other.get_type().kind() == types::Kind::Map;
        is_map
            && *size.inner() == self.0.len() as i64
            && other.as_indexer().is_some_and(|other| {
                let mut fields = self.0.iter();
                fields.all(|(name, value)| {
                    other
                        .get(name)
                        .is_ok_and(|other| value.value().equals(other.as_ref()))
                })
            })
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Record {}

impl Container for Record {
    fn contains(&self, name: &dyn Val) -> Result<bool, ExecutionError> {
        let name = name.downcast_ref::<CelString<'_>>();
        Ok(name.is_some_and(|name| Record::get(self, name.inner()).is_some()))
    }
}

impl Indexer for Record {
    fn get<'b, 'v>(&'b self, name: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(name) = name.downcast_ref::<CelString<'_>>() else {
            return Err(wrong_type(name, "string"));
        };
        match Record::get(self, name.inner()) {
            Some(value) => Ok(CowVal::Borrowed(value.value())),
            None => Err(ExecutionError::no_such_key(name.inner())),
        }
    }

    fn steal<'v>(self: Box<Self>, name: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Indexer::get(&*self, name).map(CowVal::into_owned)
    }
}

impl Iterable for Record {
    fn iter<'b, 'v>(&'b self) -> Box<dyn traits::Iterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Names(self.0.iter()))
    }
}

struct Names<'b>(std::slice::Iter<'b, (Text, Data)>);

impl<'b, 'v> traits::Iterator<'b, 'v> for Names<'b> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        self.0.next().map(|(name, _)| name as &(dyn Val + 'v))
    }
}

impl Sizer for Record {
    fn size(&self) -> CelInt {
        (self.0.len() as i64).into()
    }
}

impl Zeroer for Record {
    fn is_zero_value(&self) -> bool {
        self.0.is_empty()
    }
}

fn wrong_type(got: &dyn Val, want: &str) -> ExecutionError {
    ExecutionError::UnexpectedType {
        got: got.get_type().name().to_owned(),
        want: want.to_owned(),
    }
}

/// What an expression gave, as part of an event.
pub(crate) fn data_of(value: &dyn Val) -> Result<Data, String> {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return Ok(Data::Text(text.clone().into_static()));
    }
    if let Some(int) = value.downcast_ref::<CelInt>() {
        return Ok(Data::Int(*int));
    }
    if let Some(double) = value.downcast_ref::<CelDouble>() {
        return Data::float(*double.inner()).map_err(|error| error.to_string());
    }
    if let Some(is_true) = value.downcast_ref::<CelBool>() {
        return Ok((*is_true.inner()).into());
    }
    if let Some(record) = value.downcast_ref::<Record>() {
        return Ok(Data::Record(record.clone()));
    }
    if let Some(list) = value.downcast_ref::<List>() {
        return Ok(Data::List(list.clone()));
    }
    if let Some(uint) = value.downcast_ref::<CelUInt>() {
        return Ok((*uint.inner()).into());
    }
    rare_data_of(value)
}

fn rare_data_of(value: &dyn Val) -> Result<Data, String> {
    if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        let mut fields = Vec::with_capacity(map.inner().len());
        for (name, value) in map.inner() {
            let CelMapKey::String(name) = name else {
                let wanted = "the names in a record are strings; write string(…) around others";
                return Err(wanted.to_owned());
            };
            fields.push((name.clone().into_static(), data_of(value.as_ref())?));
        }
        return Ok(Data::record(fields));
    }
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        let values: Result<Vec<Data>, String> = list
            .inner()
            .iter()
            .map(|value| data_of(value.as_ref()))
            .collect();
        return Ok(values?.into());
    }
    if value.downcast_ref::<CelNull>().is_some() {
        return Ok(Data::Null);
    }
    if let Some(time) = value.downcast_ref::<CelTimestamp>() {
        return Ok(time.inner().to_rfc3339().into());
    }
    if let Some(duration) = value.downcast_ref::<CelDuration>() {
        let seconds = duration.inner().num_milliseconds() as f64 / 1_000.0;
        return Ok(format!("{seconds}s").into());
    }
    if let Some(optional) = value.downcast_ref::<CelOptional<'_>>() {
        return match optional.option() {
            Some(value) => data_of(value),
            None => Ok(Data::Null),
        };
    }
    let is_bytes = value.downcast_ref::<CelBytes<'_>>().is_some();
    let name = if is_bytes {
        "bytes"
    } else {
        value.get_type().name()
    };
    Err(format!(
        "a value of the type {name} has no place in an event; make a string or number of it"
    ))
}

impl From<EventError> for String {
    fn from(error: EventError) -> Self {
        error.to_string()
    }
}
