//! Expressions of built-in plug-ins, in CEL, the Common Expression Language.
//!
//! An [`Expression`] is compiled once, when the stage is deployed: what can be wrong with it is told then, with its
//! position. Evaluating it copies nothing that it does not give back. It ends soon: the language has no loops but
//! those over a list, they cannot be nested without end, and patterns are matched in linear time.
//!
//! ```
//! use flows::{Event, Expression, Variables};
//!
//! let expression = Expression::compile("event.price > 10 && event.name.startsWith('a')")?;
//! let event = Event::parse(br#"{"price": 12.5, "name": "apple"}"#).unwrap();
//! assert!(expression.is_true(&Variables::of(event.data()))?);
//! # Ok::<(), flows::ExpressionError>(())
//! ```

mod check;
mod quick;

use std::sync::{Arc, LazyLock};

use cel::common::ast::IdedExpr;
use cel::common::types::{CelBool, CelList, CelString};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::{Context, Env, Value as CelValue};
use kernel::Headers;

use crate::event::{Data, Record, data_of};
use quick::Node;

/// How long an expression may be.
pub const EXPRESSION_BYTES_MAX: usize = 4_096;

/// The names of variables that every expression may use.
const ALWAYS: &[&str] = &["event", "headers"];

/// An expression that was understood.
#[derive(Debug)]
pub struct Expression {
    text: Box<str>,
    root: IdedExpr,
    quick: Node,
}

/// What an expression can look at.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'a> {
    /// `event`: the event.
    event: &'a Data,
    /// `headers`: those of the message.
    headers: Option<&'a Headers>,
    /// Others by name.
    more: &'a [(&'static str, Data)],
}

/// What is wrong with an expression, or with what it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is too long.
    #[error("an expression has at most {EXPRESSION_BYTES_MAX} bytes, this one has {bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It cannot be understood.
    #[error(
        "the expression {text:?} cannot be understood at line {line}, column {column}: {reason}"
    )]
    Syntax {
        /// The expression.
        text: String,
        /// Where, from one on.
        line: usize,
        /// Where, from one on.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// It could not be evaluated.
    #[error("the expression {text:?} cannot be evaluated: {reason}")]
    Evaluation {
        /// The expression.
        text: String,
        /// Why.
        reason: String,
    },
}

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let added = add_functions(&mut env);
    // The names are fixed, so they clash always or never, and every test would tell.
    debug_assert!(added.is_ok(), "{added:?}");
    Arc::new(env)
});

fn add_functions(env: &mut Env) -> Result<(), cel::DeclarationError> {
    cel::extensions::strings(env)?;
    cel::extensions::lists(env)?;
    cel::extensions::math(env)?;
    cel::add_member_overload!(env, fn lower: (CelString<'_>) -> CelString<'static>)?;
    cel::add_member_overload!(env, fn upper: (CelString<'_>) -> CelString<'static>)?;
    cel::add_member_overload!(env, fn words: (CelString<'_>) -> CelList<'static>)?;
    Ok(())
}

fn lower(text: &CelString<'_>) -> CelString<'static> {
    text.inner().to_lowercase().into()
}

fn upper(text: &CelString<'_>) -> CelString<'static> {
    text.inner().to_uppercase().into()
}

/// The runs of letters and digits in a text.
fn words(text: &CelString<'_>) -> CelList<'static> {
    let words = text.inner().split(|letter: char| !letter.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    let words: Vec<Box<dyn Val>> = words
        .map(|word| Box::new(CelString::from(word.to_owned())) as Box<dyn Val>)
        .collect();
    CelList::from(words)
}

impl Expression {
    /// Understands an expression over `event` and `headers`.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        Self::compile_with(text, &[])
    }

    /// As [`Expression::compile`], with these variables besides.
    pub fn compile_with(text: &str, more: &[&'static str]) -> Result<Self, ExpressionError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(ExpressionError::TooLong { bytes: text.len() });
        }
        let program = ENVIRONMENT.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let (line, column) = first.map_or((1, 1), |error| error.pos);
            ExpressionError::Syntax {
                text: text.to_owned(),
                line: usize::try_from(line).unwrap_or(1).max(1),
                column: usize::try_from(column).unwrap_or(1).max(1),
                reason: first.map_or_else(String::new, |error| error.msg.clone()),
            }
        })?;
        check::check(text, &program, &[ALWAYS, more].concat())?;
        let mut root = program.expression().clone();
        check::order_comparisons(&mut root);
        let quick = Node::of(&root);
        Ok(Self {
            text: text.into(),
            root,
            quick,
        })
    }

    /// Whether it gives the event as it is.
    pub(crate) fn is_event(&self) -> bool {
        self.quick.is_path("event", &[])
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it gives.
    pub fn evaluate(&self, variables: &Variables<'_>) -> Result<Data, ExpressionError> {
        let data = match self.quick.evaluate(variables) {
            Some(data) => data.into_owned(),
            None => self.with_value(variables, data_of)?,
        };
        data.check_depth()
            .map_err(|error| self.failed(error.to_string()))?;
        Ok(data)
    }

    /// Whether it is true. It fails if it is neither true nor false.
    pub fn is_true(&self, variables: &Variables<'_>) -> Result<bool, ExpressionError> {
        if let Some(Data::Bool(is_true)) = self.quick.evaluate(variables).as_deref() {
            return Ok(*is_true.inner());
        }
        self.with_value(variables, |value| match value.downcast_ref::<CelBool>() {
            Some(is_true) => Ok(*is_true.inner()),
            None => Err(format!(
                "it must be true or false, but is of the type {}",
                value.get_type().name()
            )),
        })
    }

    /// The number that it gives.
    pub fn number(&self, variables: &Variables<'_>) -> Result<f64, ExpressionError> {
        let data = self.evaluate(variables)?;
        data.as_number()
            .ok_or_else(|| self.failed(format!("it must be a number, but is {}", data.kind())))
    }

    /// The time that it gives, in milliseconds since 1970: a number is that already, a text is a time of RFC 3339.
    pub fn time_ms(&self, variables: &Variables<'_>) -> Result<i64, ExpressionError> {
        let data = self.evaluate(variables)?;
        let time = match &data {
            Data::Text(text) => time_of(text.inner()),
            other => other.as_number().map(|number| number as i64),
        };
        time.filter(|time| (0..=TIME_MS_MAX).contains(time)).ok_or_else(|| {
            let wanted = "it must be a time: milliseconds since 1970, or a text such as 2026-01-31T12:00:00Z";
            self.failed(format!("{wanted}; but it is {}", shown(&data)))
        })
    }

    fn with_value<T>(
        &self,
        variables: &Variables<'_>,
        take: impl FnOnce(&dyn Val) -> Result<T, String>,
    ) -> Result<T, ExpressionError> {
        with_value(&self.root, variables, take).map_err(|reason| self.failed(reason))
    }

    fn failed(&self, reason: String) -> ExpressionError {
        ExpressionError::Evaluation {
            text: self.text.to_string(),
            reason,
        }
    }
}

/// The year 5138; later times leave no room for computing with them.
const TIME_MS_MAX: i64 = 100_000_000_000_000;

/// How much of a value is shown in a message.
const SHOWN_BYTES_MAX: usize = 100;

fn shown(data: &Data) -> String {
    let text = data.key_text();
    text.chars().take(SHOWN_BYTES_MAX).collect()
}

/// A time as RFC 3339 writes it, in milliseconds since 1970.
fn time_of(text: &str) -> Option<i64> {
    let variables = [("text", Data::from(text.to_owned()))];
    let variables = Variables {
        event: &Data::Null,
        headers: None,
        more: &variables,
    };
    static TIME: LazyLock<Option<IdedExpr>> = LazyLock::new(|| {
        Some(
            ENVIRONMENT
                .compile("timestamp(text)")
                .ok()?
                .expression()
                .clone(),
        )
    });
    let read = |value: &dyn Val| {
        let time = value.downcast_ref::<cel::common::types::CelTimestamp>();
        time.map(|time| time.inner().timestamp_millis())
            .ok_or_else(String::new)
    };
    with_value(TIME.as_ref()?, &variables, read).ok()
}

/// Evaluates an expression, or a part of one.
fn with_value<T>(
    expression: &IdedExpr,
    variables: &Variables<'_>,
    take: impl FnOnce(&dyn Val) -> Result<T, String>,
) -> Result<T, String> {
    let mut context = Context::with_env(ENVIRONMENT.clone());
    context.set_variable_resolver(variables);
    let value = CelValue::resolve_val(expression, &context).map_err(|error| error.to_string())?;
    take(value.as_ref())
}

impl<'a> Variables<'a> {
    /// Only `event`.
    pub fn of(event: &'a Data) -> Self {
        Self {
            event,
            headers: None,
            more: &[],
        }
    }

    /// With `headers`.
    #[must_use]
    pub fn with_headers(mut self, headers: &'a Headers) -> Self {
        self.headers = Some(headers);
        self
    }

    /// With others by name.
    #[must_use]
    pub fn with(mut self, more: &'a [(&'static str, Data)]) -> Self {
        self.more = more;
        self
    }

    /// The variable of this name, unless it has to be made first.
    fn get(&self, name: &str) -> Option<&'a Data> {
        if name == "event" {
            return Some(self.event);
        }
        let found = self.more.iter().find(|(known, _)| *known == name);
        found.map(|(_, data)| data)
    }
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        if let Some(data) = self.get(name) {
            return Some(CowVal::Borrowed(data.value()));
        }
        (name == "headers").then(|| {
            let headers = self.headers.into_iter().flat_map(Headers::iter);
            let record: Record = headers
                .map(|(name, value)| (name.to_owned(), Data::from(value.to_owned())))
                .collect();
            CowVal::owned(record)
        })
    }
}

#[cfg(test)]
mod tests;
