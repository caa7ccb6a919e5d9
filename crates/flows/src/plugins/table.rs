//! Tables of databases that events are written to: names, and what is told apart by which columns.

use std::collections::BTreeMap;

use super::{Formula, ParameterError};

const COLUMNS_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 63;

/// Whether table, columns and key can be used.
pub(super) fn check(
    table: &str,
    columns: &BTreeMap<String, Formula>,
    key: &[String],
) -> Result<(), ParameterError> {
    if columns.is_empty() || columns.len() > COLUMNS_MAX {
        let wanted = format!("name 1 to {COLUMNS_MAX} columns");
        return Err(ParameterError::new("columns", wanted));
    }
    check_name("table", table)?;
    columns
        .keys()
        .try_for_each(|name| check_name("columns", name))?;
    match key.iter().find(|name| !columns.contains_key(*name)) {
        Some(name) => {
            let problem = format!("there is no column {name}");
            Err(ParameterError::new("key", problem))
        }
        None => Ok(()),
    }
}

/// Names become part of statements, so they are plain.
fn check_name(field: &str, name: &str) -> Result<(), ParameterError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_plain = name.bytes().all(fits) && name.len() <= NAME_BYTES_MAX;
    let first = name.bytes().next();
    match is_plain && first.is_some_and(|first| !first.is_ascii_digit()) {
        true => Ok(()),
        false => {
            let wanted = format!(
                "{name:?} is no name: write 1 to {NAME_BYTES_MAX} letters, digits and _, no digit first"
            );
            Err(ParameterError::new(field, wanted))
        }
    }
}

/// Names as a list in a statement.
pub(super) fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}
