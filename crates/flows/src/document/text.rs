//! From TOML to values, with the position of each field.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::problem::{Path, Positions, Problems, Spot};

/// Reads TOML. What cannot be read is a problem, and the rest is read all the same.
pub(super) fn read_toml(text: &str, positions: &mut Positions, problems: &mut Problems) -> Value {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let byte = error.span().map_or(0, |span| span.start);
        problems.error_at_byte(
            positions,
            byte,
            format_args!("this is no TOML: {}", error.message()),
        );
    }
    let mut reading = Reading {
        positions,
        problems,
    };
    reading.table(table.get_ref(), &Path::default())
}

struct Reading<'a> {
    positions: &'a mut Positions,
    problems: &'a mut Problems,
}

impl Reading<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &Path) -> Value {
        let mut members = Map::new();
        for (name, value) in table {
            let below = path.to(name.get_ref());
            let spot = Spot {
                name: name.span().start,
                value: value.span().start,
            };
            self.positions.note(&below, spot);
            members.insert(name.get_ref().to_string(), self.value(value, &below));
        }
        Value::Object(members)
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &Path) -> Value {
        match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(truth) => Value::Bool(*truth),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Integer(integer) => self.number(integer_of(integer), path),
            DeValue::Float(float) => {
                let float = float.as_str().parse().ok().and_then(Number::from_f64);
                self.number(float, path)
            }
            DeValue::Table(table) => self.table(table, path),
            DeValue::Array(list) => {
                let element = |(index, element): (usize, &Spanned<DeValue<'_>>)| {
                    let below = path.to(index);
                    let at = element.span().start;
                    self.positions.note(
                        &below,
                        Spot {
                            name: at,
                            value: at,
                        },
                    );
                    self.value(element, &below)
                };
                Value::Array(list.iter().enumerate().map(element).collect())
            }
        }
    }

    fn number(&mut self, number: Option<Number>, path: &Path) -> Value {
        if number.is_none() {
            let message = "this number is too large, or none at all: write one of at most 64 bits";
            self.problems.error(path, message);
        }
        number.map_or(Value::from(0), Value::Number)
    }
}

fn integer_of(integer: &DeInteger<'_>) -> Option<Number> {
    let value = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    Some(value.into())
}
