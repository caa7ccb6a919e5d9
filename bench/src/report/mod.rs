//! How it came out: a table for the terminal, `results.json` for programs, a page for people.

mod document;
mod machine;
mod results;

pub use document::{document, merge_document};
pub use machine::Machine;
pub use results::{ResultsError, Row, merge_results, read_rows};

use std::path::{Path, PathBuf};

use crate::cases::{Case, Target};

/// Writes a picture for the page.
pub fn write_plot(name: &str, svg: &str) -> std::io::Result<()> {
    let plots = workspace().join("docs/plots");
    std::fs::create_dir_all(&plots)?;
    std::fs::write(plots.join(format!("{name}.svg")), svg)
}

/// Where the repository is.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// One line of a table for the terminal or the page.
#[derive(Debug)]
pub struct Line {
    /// Name, ours, peer, its name, ratio, target, verdict.
    pub cells: [String; 7],
}

/// What the columns of a table hold.
pub const COLUMNS: [&str; 7] = [
    "case",
    "Hivewire",
    "peer",
    "compared with",
    "ratio",
    "target",
    "reached",
];

/// Puts a case and its row, if it was measured, into words.
pub fn line(case: &Case, row: Option<&Row>) -> Line {
    let figure = |value: f64| format!("{} {}", thousands(value), case.unit);
    let unknown = || "not measured yet".to_owned();
    let peer = row.map_or_else(unknown, |row| figure(row.peer));
    let (ours, ratio, reached) = match row {
        None => (unknown(), "–".to_owned(), "–".to_owned()),
        Some(row) => {
            let verdict = match case.target {
                Target::None => "–",
                target if target.is_reached(row.ratio) => "yes",
                _ => "no",
            };
            (figure(row.ours), ratio(row.ratio), verdict.to_owned())
        }
    };
    Line {
        cells: [
            case.name.to_owned(),
            ours,
            peer,
            case.peer_name.to_owned(),
            ratio,
            case.target.to_string(),
            reached,
        ],
    }
}

/// Lays lines out in columns of equal width.
pub fn table(lines: &[Line]) -> String {
    let heading = Line {
        cells: COLUMNS.map(str::to_owned),
    };
    let lines: Vec<&Line> = std::iter::once(&heading).chain(lines).collect();
    let width = |column: usize| {
        let lengths = lines.iter().map(|line| line.cells[column].chars().count());
        lengths.max().unwrap_or_default()
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    lines
        .iter()
        .map(|line| {
            let cells = line.cells.iter().zip(widths);
            let text: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            format!("{}\n", text.join("  ").trim_end())
        })
        .collect()
}

fn ratio(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.1}×")
    } else {
        format!("{value:.2}×")
    }
}

/// Writes a figure with commas between thousands, and with one decimal if it is small.
pub fn thousands(value: f64) -> String {
    if value < 1_000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(123_456.0), "123,456");
        assert_eq!(thousands(99.96), "100.0");
        assert_eq!(thousands(7.0), "7.0");
        assert_eq!(ratio(25.04), "25.0×");
        assert_eq!(ratio(0.456), "0.46×");
    }

    #[test]
    fn columns_line_up() {
        let cells = |first: &str| Line {
            cells: std::array::from_fn(|index| if index == 0 { first } else { "µs" }.to_owned()),
        };
        let text = table(&[cells("a"), cells("a longer name")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let column = |line: &str| line.find("µs");
        assert_eq!(column(lines[1]), column(lines[2]));
    }
}
