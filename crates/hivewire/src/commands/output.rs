//! Results on standard output. A reader that went away is an error that ends the command quietly.

use std::io::{self, Write};

use serde_json::Value;

/// Prints a line.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    bytes_line(text.as_bytes())
}

/// Prints bytes as they are, and a line end.
pub(super) fn bytes_line(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.write_all(b"\n")?;
    Ok(())
}

/// Prints a value as one line of JSON, at once.
pub(super) fn json_line(value: &Value) -> anyhow::Result<()> {
    line(&value.to_string())?;
    Ok(io::stdout().flush()?)
}

/// Prints rows below their titles, each column as wide as it must be. The columns named in
/// `right` are numbers.
pub(super) fn table(titles: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([titles[column].len()])
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| {
                let width = widths[column];
                if right.contains(&column) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Text from others, made safe to print: no control characters reach the terminal.
pub(super) fn printable(text: &str, characters_max: usize) -> String {
    let mut shown: String = text
        .chars()
        .take(characters_max)
        .flat_map(|character| {
            let escaped = character.is_control();
            let plain = (!escaped).then_some(character);
            let escape = escaped.then(|| character.escape_default());
            plain.into_iter().chain(escape.into_iter().flatten())
        })
        .collect();
    if text.chars().nth(characters_max).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![
            vec!["a".into(), "1".into()],
            vec!["long".into(), "23".into()],
        ];
        let text = table(&["name", "n"], &[1], &rows);
        assert_eq!(text, "name   n\na      1\nlong  23\n");
    }

    #[test]
    fn control_characters_are_shown_not_sent_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jé\n", 100), "a\\u{1b}[2Jé\\n");
        assert_eq!(printable("abc", 2), "ab…");
    }
}
