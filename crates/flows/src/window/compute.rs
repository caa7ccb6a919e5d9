//! What is computed over events: one value for each name, each from an accumulator of bounded size.

use std::collections::BTreeMap;

use kernel::worker::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sketch::{Distinct, Frequent};
use crate::event::{Data, Record, Text};
use crate::expression::Variables;
use crate::plugins::{Formula, ParameterError};

/// How many values may be computed at once.
const COMPUTATIONS_MAX: usize = 50;
const TOP_MAX: usize = 100;
/// Room in the count of frequent values for each one that is asked for.
const ROOM_FACTOR: usize = 10;
const COLLECTED_MAX: usize = 1_000;

/// What one value is computed from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Computation {
    /// How many events there were.
    Count,
    /// The sum of this expression.
    Sum(Formula),
    /// The smallest value of this expression, which gives numbers or texts.
    Min(Formula),
    /// The largest value of this expression, which gives numbers or texts.
    Max(Formula),
    /// The average of this expression.
    Average(Formula),
    /// How many different values this expression had: exact up to 1,024, beyond that to within some 3 %.
    Distinct(Formula),
    /// The most frequent values of an expression with their counts, as a list of records `value`, `count`.
    Top {
        /// The expression.
        of: Formula,
        /// How many, at most 100.
        k: usize,
    },
    /// The first values of an expression, as a list.
    Collect {
        /// The expression.
        of: Formula,
        /// How many, at most 1,000; later ones are left out.
        max: usize,
    },
}

/// What is computed, by the name that it has in the event that comes out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Computations(BTreeMap<String, Computation>);

/// One for each computation, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Accumulators(Vec<Accumulator>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Accumulator {
    #[serde(rename = "c")]
    Count(u64),
    #[serde(rename = "s")]
    Sum(Sum),
    #[serde(rename = "m")]
    Extreme(Option<Data>),
    #[serde(rename = "a")]
    Average(Sum, u64),
    #[serde(rename = "d")]
    Distinct(Distinct),
    #[serde(rename = "t")]
    Top(Frequent),
    #[serde(rename = "l")]
    Collected(Vec<Data>),
}

/// Whole numbers are added exactly as long as they fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sum(i64, f64);

impl Sum {
    fn add(&mut self, number: &Data) {
        match number
            .as_int()
            .and_then(|number| self.0.checked_add(number))
        {
            Some(sum) => self.0 = sum,
            None => self.1 += number.as_number().unwrap_or_default(),
        }
    }

    fn merge(&mut self, other: Self) {
        self.add(&other.0.into());
        self.1 += other.1;
    }

    fn value(self) -> f64 {
        self.0 as f64 + self.1
    }

    fn data(self) -> Data {
        match self.1 == 0.0 {
            true => self.0.into(),
            false => Data::float(self.value()).unwrap_or(Data::Null),
        }
    }
}

impl Computations {
    /// Fails if there are too many, or one asks for too much.
    pub fn check(&self, field: &str) -> Result<(), ParameterError> {
        if self.0.is_empty() || self.0.len() > COMPUTATIONS_MAX {
            let wanted = format!(
                "name 1 to {COMPUTATIONS_MAX} values to compute, such as {{ count = \"count\" }}"
            );
            return Err(ParameterError::new(field, wanted));
        }
        for (name, computation) in &self.0 {
            let (asked, max) = match computation {
                Computation::Top { k, .. } => (*k, TOP_MAX),
                Computation::Collect { max, .. } => (*max, COLLECTED_MAX),
                _ => continue,
            };
            if asked == 0 || asked > max {
                let wanted = format!("ask for 1 to {max}, not {asked}");
                return Err(ParameterError::new(format!("{field}.{name}"), wanted));
            }
        }
        Ok(())
    }

    /// As before the first event.
    pub fn start(&self) -> Accumulators {
        let start = |computation: &Computation| match computation {
            Computation::Count => Accumulator::Count(0),
            Computation::Sum(_) => Accumulator::Sum(Sum::default()),
            Computation::Min(_) | Computation::Max(_) => Accumulator::Extreme(None),
            Computation::Average(_) => Accumulator::Average(Sum::default(), 0),
            Computation::Distinct(_) => Accumulator::Distinct(Distinct::default()),
            Computation::Top { .. } => Accumulator::Top(Frequent::default()),
            Computation::Collect { .. } => Accumulator::Collected(Vec::new()),
        };
        Accumulators(self.0.values().map(start).collect())
    }

    /// What an event contributes to each; it fails before anything is changed.
    pub fn inputs(&self, variables: &Variables<'_>) -> Result<Vec<Data>, Failure> {
        self.0
            .iter()
            .map(|(name, of)| of.input(name, variables))
            .collect()
    }

    /// Adds what an event contributes.
    pub fn add(&self, to: &mut Accumulators, inputs: &[Data]) {
        for ((computation, accumulator), input) in self.0.values().zip(&mut to.0).zip(inputs) {
            computation.add(accumulator, input);
        }
    }

    /// Adds what was accumulated elsewhere, later.
    pub fn merge(&self, to: &mut Accumulators, other: &Accumulators) {
        for ((computation, accumulator), other) in self.0.values().zip(&mut to.0).zip(&other.0) {
            computation.merge(accumulator, other);
        }
    }

    /// Whether state that was stored belongs to these computations.
    pub fn fit(&self, stored: &Accumulators) -> bool {
        let same = |(a, b): (&Accumulator, &Accumulator)| {
            std::mem::discriminant(a) == std::mem::discriminant(b)
        };
        let start = self.start();
        start.0.len() == stored.0.len() && start.0.iter().zip(&stored.0).all(same)
    }

    /// The computed values by name, besides these fields.
    pub fn results(&self, of: &Accumulators, fields: Vec<(&'static str, Data)>) -> Record {
        let results = self.0.iter().zip(&of.0);
        let results = results
            .map(|((name, computation), of)| (Text::from(name.clone()), computation.result(of)));
        let fields = fields
            .into_iter()
            .map(|(name, data)| (Text::from(name), data));
        fields.chain(results).collect()
    }
}

impl Computation {
    fn formula(&self) -> Option<&Formula> {
        match self {
            Self::Count => None,
            Self::Sum(of)
            | Self::Min(of)
            | Self::Max(of)
            | Self::Average(of)
            | Self::Distinct(of) => Some(of),
            Self::Top { of, .. } | Self::Collect { of, .. } => Some(of),
        }
    }

    fn input(&self, name: &str, variables: &Variables<'_>) -> Result<Data, Failure> {
        let Some(formula) = self.formula() else {
            return Ok(Data::Null);
        };
        let data = formula.evaluate(variables)?;
        let fits = match self {
            Self::Sum(_) | Self::Average(_) => data.as_number().is_some(),
            Self::Min(_) | Self::Max(_) => data.as_number().is_some() || data.as_text().is_some(),
            _ => true,
        };
        match fits {
            true => Ok(data),
            false => Err(Failure::new(format!(
                "{name} cannot be computed: {:?} gives {}, not a number",
                formula.text(),
                data.kind()
            ))),
        }
    }

    fn add(&self, accumulator: &mut Accumulator, input: &Data) {
        match accumulator {
            Accumulator::Count(count) => *count += 1,
            Accumulator::Sum(sum) => sum.add(input),
            Accumulator::Average(sum, count) => {
                sum.add(input);
                *count += 1;
            }
            Accumulator::Extreme(known) => self.improve(known, input),
            Accumulator::Distinct(distinct) => distinct.add(&input.key_text()),
            Accumulator::Top(frequent) => frequent.add(&input.key_text(), 1, self.room()),
            Accumulator::Collected(values) => self.collect(values, input),
        }
    }

    fn merge(&self, accumulator: &mut Accumulator, other: &Accumulator) {
        match (accumulator, other) {
            (Accumulator::Count(count), Accumulator::Count(other)) => *count += other,
            (Accumulator::Sum(sum), Accumulator::Sum(other)) => sum.merge(*other),
            (Accumulator::Average(sum, count), Accumulator::Average(other, others)) => {
                sum.merge(*other);
                *count += others;
            }
            (Accumulator::Extreme(known), Accumulator::Extreme(Some(other))) => {
                self.improve(known, other)
            }
            (Accumulator::Distinct(distinct), Accumulator::Distinct(other)) => {
                distinct.merge(other)
            }
            (Accumulator::Top(frequent), Accumulator::Top(other)) => {
                frequent.merge(other, self.room())
            }
            (Accumulator::Collected(values), Accumulator::Collected(others)) => {
                others.iter().for_each(|other| self.collect(values, other));
            }
            _ => {}
        }
    }

    fn improve(&self, known: &mut Option<Data>, input: &Data) {
        let is_better = match known.as_ref() {
            None => true,
            Some(known) => {
                let ordering = match (known.as_text(), input.as_text()) {
                    (Some(known), Some(input)) => input.cmp(known),
                    // Numbers come before texts.
                    (known, input) if known.is_some() != input.is_some() => {
                        input.is_some().cmp(&known.is_some())
                    }
                    _ => {
                        let numbers = (
                            input.as_number().unwrap_or(0.0),
                            known.as_number().unwrap_or(0.0),
                        );
                        numbers.0.total_cmp(&numbers.1)
                    }
                };
                match self {
                    Self::Min(_) => ordering.is_lt(),
                    _ => ordering.is_gt(),
                }
            }
        };
        if is_better {
            *known = Some(input.clone());
        }
    }

    fn collect(&self, values: &mut Vec<Data>, input: &Data) {
        if matches!(self, Self::Collect { max, .. } if values.len() < *max) {
            values.push(input.clone());
        }
    }

    fn room(&self) -> usize {
        match self {
            Self::Top { k, .. } => (k * ROOM_FACTOR).max(TOP_MAX),
            _ => 0,
        }
    }

    fn result(&self, of: &Accumulator) -> Data {
        match of {
            Accumulator::Count(count) => (*count).into(),
            Accumulator::Sum(sum) => sum.data(),
            Accumulator::Extreme(known) => known.clone().unwrap_or_default(),
            Accumulator::Average(_, 0) => Data::Null,
            Accumulator::Average(sum, count) => {
                Data::float(sum.value() / *count as f64).unwrap_or_default()
            }
            Accumulator::Distinct(distinct) => distinct.count().into(),
            Accumulator::Top(frequent) => self.top(frequent),
            Accumulator::Collected(values) => values.clone().into(),
        }
    }

    fn top(&self, frequent: &Frequent) -> Data {
        let k = match self {
            Self::Top { k, .. } => *k,
            _ => 0,
        };
        let record = |(value, count): (&str, u64)| {
            Data::record([
                ("value", Data::from(value.to_owned())),
                ("count", count.into()),
            ])
        };
        frequent
            .top(k)
            .into_iter()
            .map(record)
            .collect::<Vec<_>>()
            .into()
    }
}
