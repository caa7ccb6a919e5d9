//! What is wrong with a document, and where in its text.

use std::collections::HashMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many problems are told of one document.
pub const PROBLEMS_MAX: usize = 100;

/// The way to a field: the names of tables and, in lists, numbers from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<String>);

impl Path {
    /// The stage of this name.
    pub fn stage(name: &str) -> Self {
        Self::default().to("stages").to(name)
    }

    /// The way that [`Path::to_string`] wrote. A name with a full stop in it counts as two, which leads to a place
    /// nearby.
    fn read(text: &str) -> Self {
        let parts = text.split('.').filter(|part| !part.is_empty());
        Self(parts.map(str::to_owned).collect())
    }

    /// The field below this one.
    #[must_use]
    pub fn to(&self, name: impl fmt::Display) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.to_string());
        Self(parts)
    }

    /// The stage that it leads into.
    fn stage_name(&self) -> Option<&str> {
        match self.0.as_slice() {
            [stages, name, ..] if stages == "stages" => Some(name),
            _ => None,
        }
    }

    /// Its last part.
    pub(super) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    fn parent(&self) -> Option<Self> {
        let (_, parts) = self.0.split_last()?;
        Some(Self(parts.to_vec()))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// How bad a problem is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// It can, and somebody should look at it.
    Warning,
}

/// Something that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DocumentProblem")]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The stage that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The way to the field, such as `stages.words.outputs.out`; empty for the whole document.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
    /// The line of the text, from one, if the document was a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in that line, from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The field itself, as long as its place is to be found.
    #[serde(skip)]
    at: Path,
    /// Whether the name of the field is meant, and not what stands there.
    #[serde(skip)]
    at_name: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}: ")?;
        }
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// What the parser says, in words for people who do not write Rust.
pub(super) fn plain(message: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected a table"),
    ];
    let mut plain = message.to_owned();
    for (word, better) in WORDS {
        plain = plain.replace(word, better);
    }
    match plain.strip_prefix("missing field ") {
        Some(field) => format!("{field} is missing here"),
        None => plain,
    }
}

/// All that is wrong with a document, in the order of its text where that is known.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error,
)]
#[serde(transparent)]
#[schemars(rename = "DocumentProblems")]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Notes an error at what stands in a field.
    pub fn error(&mut self, at: &Path, message: impl fmt::Display) {
        self.push(Severity::Error, at, false, message);
    }

    /// Notes an error at the name of a field.
    pub(super) fn error_at_name(&mut self, at: &Path, message: impl fmt::Display) {
        self.push(Severity::Error, at, true, message);
    }

    /// Notes a warning.
    pub fn warning(&mut self, at: &Path, message: impl fmt::Display) {
        self.push(Severity::Warning, at, false, message);
    }

    fn push(&mut self, severity: Severity, at: &Path, at_name: bool, message: impl fmt::Display) {
        // Errors are never pushed out by warnings: a document with one must not pass.
        let is_full = self.0.len() >= PROBLEMS_MAX;
        if is_full && (severity == Severity::Warning || self.has_errors()) {
            return;
        }
        self.0.push(Problem {
            severity,
            stage: at.stage_name().map(str::to_owned),
            path: at.to_string(),
            message: message.to_string(),
            line: None,
            column: None,
            at: at.clone(),
            at_name,
        });
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the document cannot be used.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// Why the document cannot be used.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.0
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
    }

    /// Adds others.
    pub fn extend(&mut self, others: Problems) {
        self.0.extend(others.0);
    }

    /// A mistake at a byte of the text.
    pub(super) fn error_at_byte(
        &mut self,
        text: &Positions,
        byte: usize,
        message: impl fmt::Display,
    ) {
        self.error_at(text.line_and_column(byte), message);
    }

    /// A mistake at a line and a column of the text.
    pub(super) fn error_at(&mut self, (line, column): (usize, usize), message: impl fmt::Display) {
        let before = self.0.len();
        self.error(&Path::default(), message);
        if let Some(problem) = self.0.get_mut(before) {
            (problem.line, problem.column) = (Some(line), Some(column));
        }
    }

    /// Forgets where in a text they are.
    #[must_use]
    pub(super) fn anywhere(mut self) -> Self {
        for problem in &mut self.0 {
            (problem.line, problem.column) = (None, None);
        }
        self
    }

    /// Says where in the text each of them is, and puts them in that order.
    #[must_use]
    pub(super) fn located(mut self, positions: &Positions) -> Self {
        for problem in &mut self.0 {
            if problem.line.is_some() {
                continue;
            }
            // What came from elsewhere has only the text of its path.
            if problem.at == Path::default() {
                problem.at = Path::read(&problem.path);
            }
            if let Some(byte) = positions.find(&problem.at, problem.at_name) {
                let (line, column) = positions.line_and_column(byte);
                (problem.line, problem.column) = (Some(line), Some(column));
            }
        }
        self.0.sort_by_key(|problem| (problem.line, problem.column));
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Where the fields of a document stand in its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Positions {
    /// At which byte each line begins.
    lines: Vec<usize>,
    text: String,
    spots: HashMap<Path, Spot>,
    /// Fields that were written elsewhere: an edge at its receiving end.
    aliases: HashMap<Path, Path>,
}

/// At which bytes a field stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub name: usize,
    pub value: usize,
}

impl Positions {
    /// Of this text, with nothing noted yet.
    pub fn of(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            lines: std::iter::once(0).chain(ends).collect(),
            text: text.to_owned(),
            ..Self::default()
        }
    }

    pub fn note(&mut self, path: &Path, spot: Spot) {
        self.spots.insert(path.clone(), spot);
    }

    /// What the model has at `path` was written at `written`.
    pub fn note_alias(&mut self, path: Path, written: Path) {
        if !self.text.is_empty() {
            self.aliases.insert(path, written);
        }
    }

    /// The byte of a field or, if it was not written, of what it would be in.
    fn find(&self, path: &Path, at_name: bool) -> Option<usize> {
        let written = self.aliases.get(path).unwrap_or(path);
        match self.spots.get(written) {
            Some(spot) if at_name => Some(spot.name),
            Some(spot) => Some(spot.value),
            None => self.find(&path.parent()?, true),
        }
    }

    fn line_and_column(&self, byte: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|begin| *begin <= byte).max(1);
        let begin = self.lines.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(begin..byte).unwrap_or("");
        (line, before.chars().count() + 1)
    }
}
