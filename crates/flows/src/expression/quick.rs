//! The quick way for what most expressions consist of: fields, constants, comparisons, arithmetic, and records made of
//! them. It never decides what is doubtful: whatever is not plain is left to the interpreter of CEL, so that both ways
//! give the same.

use std::borrow::Cow;
use std::cmp::Ordering;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::Kind;
use cel::common::value::Val;

use super::{Variables, with_value};
use crate::event::{Data, Record, Text, data_of};

/// Whole numbers below this are exact as floating point.
const EXACT_MAX: i64 = 1 << 53;

/// Names of fields, from the outside in.
type Parts = Box<[Box<str>]>;

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Node {
    Constant(Data),
    Path(Box<str>, Parts),
    Has(Box<str>, Parts),
    Not(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    If(Box<[Node; 3]>),
    Compare(Comparison, Box<[Node; 2]>),
    Compute(Operator, Box<[Node; 2]>),
    Record(Box<[(Text, Node)]>),
    List(Box<[Node]>),
    /// Left to the interpreter.
    Other(Box<IdedExpr>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Node {
    pub fn of(expression: &IdedExpr) -> Self {
        Self::quick(expression).unwrap_or_else(|| Self::Other(Box::new(expression.clone())))
    }

    fn quick(expression: &IdedExpr) -> Option<Self> {
        match &expression.expr {
            Expr::Literal(literal) => constant(literal).map(Self::Constant),
            Expr::Ident(_) => path(expression).map(|(root, parts)| Self::Path(root, parts)),
            Expr::Select(select) if select.test => {
                let (root, mut parts) =
                    path(&select.operand).map(|(root, parts)| (root, parts.into_vec()))?;
                parts.push(select.field.as_str().into());
                Some(Self::Has(root, parts.into()))
            }
            Expr::Select(_) => path(expression).map(|(root, parts)| Self::Path(root, parts)),
            Expr::Map(map) => {
                let mut fields = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    fields.push(field(&entry.expr)?);
                }
                fields.sort_by(|a: &(Text, Self), b| a.0.cmp(&b.0));
                let is_unique = fields.windows(2).all(|pair| pair[0].0 != pair[1].0);
                is_unique.then(|| Self::Record(fields.into()))
            }
            Expr::List(list) if list.optional_indices.is_empty() => {
                Some(Self::List(list.elements.iter().map(Self::of).collect()))
            }
            Expr::Call(call) if call.target.is_none() => call_of(&call.func_name, &call.args),
            _ => None,
        }
    }

    /// Whether it is nothing but what lies there.
    pub fn is_path(&self, of: &str, at: &[&str]) -> bool {
        matches!(self, Self::Path(root, parts) if **root == *of && parts.iter().map(|part| &**part).eq(at.iter().copied()))
    }

    /// What it gives; none if that is not plain.
    pub fn evaluate<'a>(&'a self, variables: &Variables<'a>) -> Option<Cow<'a, Data>> {
        match self {
            Self::Constant(data) => Some(Cow::Borrowed(data)),
            Self::Path(root, parts) => {
                let root = variables.get(root)?;
                let found = parts.iter().try_fold(root, |at, part| at.get(part))?;
                Some(Cow::Borrowed(found))
            }
            Self::Has(root, parts) => {
                let (last, parts) = parts.split_last()?;
                let root = variables.get(root)?;
                let Data::Record(record) = parts.iter().try_fold(root, |at, part| at.get(part))?
                else {
                    return None;
                };
                owned(record.get(last).is_some())
            }
            Self::Not(node) => owned(!node.truth(variables)?),
            Self::And(nodes) => owned(nodes[0].truth(variables)? && nodes[1].truth(variables)?),
            Self::Or(nodes) => owned(nodes[0].truth(variables)? || nodes[1].truth(variables)?),
            Self::If(nodes) => match nodes[0].truth(variables)? {
                true => nodes[1].evaluate(variables),
                false => nodes[2].evaluate(variables),
            },
            Self::Compare(comparison, nodes) => {
                let (left, right) = (nodes[0].operand(variables)?, nodes[1].operand(variables)?);
                owned(compare(*comparison, &left, &right)?)
            }
            Self::Compute(operator, nodes) => {
                let (left, right) = (nodes[0].operand(variables)?, nodes[1].operand(variables)?);
                compute(*operator, &left, &right).map(Cow::Owned)
            }
            Self::Record(fields) => {
                let mut record = Vec::with_capacity(fields.len());
                for (name, node) in fields {
                    record.push((name.clone(), node.evaluate(variables)?.into_owned()));
                }
                Some(Cow::Owned(Record::from_sorted(record).into()))
            }
            Self::List(nodes) => {
                let mut values = Vec::with_capacity(nodes.len());
                for node in nodes {
                    values.push(node.evaluate(variables)?.into_owned());
                }
                Some(Cow::Owned(values.into()))
            }
            Self::Other(expression) => with_value(expression, variables, data_of)
                .ok()
                .map(Cow::Owned),
        }
    }

    /// What it gives, if an operator sees in it what the interpreter would see: types that events do not have are none
    /// of them.
    fn operand<'a>(&'a self, variables: &Variables<'a>) -> Option<Cow<'a, Data>> {
        match self {
            Self::Other(expression) => with_value(expression, variables, plain_of)
                .ok()
                .map(Cow::Owned),
            Self::If(nodes) => match nodes[0].truth(variables)? {
                true => nodes[1].operand(variables),
                false => nodes[2].operand(variables),
            },
            other => other.evaluate(variables),
        }
    }

    fn truth<'a>(&'a self, variables: &Variables<'a>) -> Option<bool> {
        self.evaluate(variables)?.as_bool()
    }
}

/// A value of a type that events have.
fn plain_of(value: &dyn Val) -> Result<Data, String> {
    match value.get_type().kind() {
        Kind::Boolean | Kind::Double | Kind::Int | Kind::String => data_of(value),
        _ => Err(String::new()),
    }
}

fn owned<'a>(truth: bool) -> Option<Cow<'a, Data>> {
    Some(Cow::Owned(truth.into()))
}

fn constant(literal: &LiteralValue) -> Option<Data> {
    match literal {
        LiteralValue::Boolean(value) => Some(Data::Bool(*value)),
        LiteralValue::Double(value) => Some(Data::Float(*value)),
        LiteralValue::Int(value) => Some(Data::Int(*value)),
        LiteralValue::Null => Some(Data::Null),
        LiteralValue::String(text) => Some(Data::Text(text.clone())),
        // These have operations of their own.
        LiteralValue::Bytes(_) | LiteralValue::UInt(_) => None,
    }
}

/// A variable and the names that lead on from there.
fn path(expression: &IdedExpr) -> Option<(Box<str>, Parts)> {
    let mut parts: Vec<Box<str>> = Vec::new();
    let mut at = expression;
    loop {
        match &at.expr {
            Expr::Select(select) if !select.test => {
                parts.push(select.field.as_str().into());
                at = &select.operand;
            }
            Expr::Ident(name) => {
                parts.reverse();
                return Some((name.as_str().into(), parts.into()));
            }
            _ => return None,
        }
    }
}

fn field(entry: &EntryExpr) -> Option<(Text, Node)> {
    let EntryExpr::MapEntry(entry) = entry else {
        return None;
    };
    match &entry.key.expr {
        Expr::Literal(LiteralValue::String(name)) if !entry.optional => {
            Some((name.clone(), Node::of(&entry.value)))
        }
        _ => None,
    }
}

fn call_of(function: &str, arguments: &[IdedExpr]) -> Option<Node> {
    match (function, arguments) {
        (operators::LOGICAL_NOT, [node]) => Some(Node::Not(Box::new(Node::of(node)))),
        (operators::LOGICAL_AND, [left, right]) => Some(Node::And(pair(left, right))),
        (operators::LOGICAL_OR, [left, right]) => Some(Node::Or(pair(left, right))),
        (operators::CONDITIONAL, [condition, then, otherwise]) => Some(Node::If(Box::new([
            Node::of(condition),
            Node::of(then),
            Node::of(otherwise),
        ]))),
        (function, [left, right]) => {
            if let Some(comparison) = comparison(function) {
                return Some(Node::Compare(comparison, pair(left, right)));
            }
            operator(function).map(|operator| Node::Compute(operator, pair(left, right)))
        }
        _ => None,
    }
}

fn pair(left: &IdedExpr, right: &IdedExpr) -> Box<[Node; 2]> {
    Box::new([Node::of(left), Node::of(right)])
}

fn comparison(function: &str) -> Option<Comparison> {
    match function {
        operators::EQUALS => Some(Comparison::Equal),
        operators::NOT_EQUALS => Some(Comparison::Unequal),
        operators::LESS => Some(Comparison::Less),
        operators::LESS_EQUALS => Some(Comparison::LessOrEqual),
        operators::GREATER => Some(Comparison::Greater),
        operators::GREATER_EQUALS => Some(Comparison::GreaterOrEqual),
        _ => None,
    }
}

fn operator(function: &str) -> Option<Operator> {
    match function {
        operators::ADD => Some(Operator::Add),
        operators::SUBSTRACT => Some(Operator::Subtract),
        operators::MULTIPLY => Some(Operator::Multiply),
        operators::DIVIDE => Some(Operator::Divide),
        operators::MODULO => Some(Operator::Remainder),
        _ => None,
    }
}

fn compare(comparison: Comparison, left: &Data, right: &Data) -> Option<bool> {
    let ordering = match (left, right) {
        (Data::Int(left), Data::Int(right)) => left.inner().cmp(right.inner()),
        (Data::Float(left), Data::Float(right)) => left.inner().partial_cmp(right.inner())?,
        (Data::Int(left), Data::Float(right)) => {
            exact(*left.inner())?.partial_cmp(right.inner())?
        }
        (Data::Float(left), Data::Int(right)) => {
            left.inner().partial_cmp(&exact(*right.inner())?)?
        }
        (Data::Text(left), Data::Text(right)) => left.inner().cmp(right.inner()),
        _ => return differ(comparison, left, right),
    };
    Some(match comparison {
        Comparison::Equal => ordering == Ordering::Equal,
        Comparison::Unequal => ordering != Ordering::Equal,
        Comparison::Less => ordering == Ordering::Less,
        Comparison::LessOrEqual => ordering != Ordering::Greater,
        Comparison::Greater => ordering == Ordering::Greater,
        Comparison::GreaterOrEqual => ordering != Ordering::Less,
    })
}

/// Values that have no order can still be equal.
fn differ(comparison: Comparison, left: &Data, right: &Data) -> Option<bool> {
    let equal = match (left, right) {
        (Data::Bool(left), Data::Bool(right)) => left.inner() == right.inner(),
        (Data::Null, Data::Null) => true,
        (Data::Null, Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::Text(_))
        | (Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::Text(_), Data::Null)
        | (Data::Text(_), Data::Bool(_) | Data::Int(_) | Data::Float(_))
        | (Data::Bool(_) | Data::Int(_) | Data::Float(_), Data::Text(_)) => false,
        _ => return None,
    };
    match comparison {
        Comparison::Equal => Some(equal),
        Comparison::Unequal => Some(!equal),
        _ => None,
    }
}

fn exact(number: i64) -> Option<f64> {
    (-EXACT_MAX..=EXACT_MAX)
        .contains(&number)
        .then_some(number as f64)
}

fn compute(operator: Operator, left: &Data, right: &Data) -> Option<Data> {
    match (left, right) {
        (Data::Int(left), Data::Int(right)) => {
            let (left, right) = (*left.inner(), *right.inner());
            let result = match operator {
                Operator::Add => left.checked_add(right),
                Operator::Subtract => left.checked_sub(right),
                Operator::Multiply => left.checked_mul(right),
                Operator::Divide => left.checked_div(right),
                Operator::Remainder => left.checked_rem(right),
            };
            result.map(Data::from)
        }
        (Data::Float(left), Data::Float(right)) => {
            let (left, right) = (*left.inner(), *right.inner());
            let result = match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
                Operator::Divide => left / right,
                Operator::Remainder => return None,
            };
            Data::float(result).ok()
        }
        (Data::Text(left), Data::Text(right)) if matches!(operator, Operator::Add) => {
            let mut text = String::with_capacity(left.inner().len() + right.inner().len());
            text.push_str(left.inner());
            text.push_str(right.inner());
            Some(text.into())
        }
        _ => None,
    }
}
