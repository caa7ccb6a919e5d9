//! The table, the reasons, and the sum.

use crate::controls::{Control, WITHOUT_CONTROL};
use crate::suite::{Guarantee, Outcome};

/// One engine's outcomes, in the order of the guarantees.
pub struct Column {
    pub label: &'static str,
    pub outcomes: Vec<Outcome>,
}

impl Column {
    fn width(&self) -> usize {
        self.label.len().max("not given".len())
    }
}

/// Everything that came of a run.
pub struct Report {
    guarantees: Vec<&'static str>,
    pub columns: Vec<Column>,
    pub controls: Vec<Control>,
    /// Guarantees that no control proves.
    pub uncontrolled: Vec<&'static str>,
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Kept(_) => "yes",
            Self::Broken(_) => "NO",
            Self::NotGiven(_) => "not given",
            Self::NotHere(_) => "n/a",
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::Kept(_) => None,
            Self::Broken(reason) => Some(reason),
            Self::NotGiven(reason) | Self::NotHere(reason) => Some(reason),
        }
    }
}

/// Says what goes on, for a run takes a while.
pub fn progress(engine: &str, guarantee: &str, outcome: &Outcome) {
    let took = match outcome {
        Outcome::Kept(took) => format!(" in {:.2} s", took.as_secs_f64()),
        _ => String::new(),
    };
    eprintln!("{engine}: {guarantee}: {}{took}", outcome.word());
}

impl Report {
    pub fn new(guarantees: &[Guarantee]) -> Self {
        Self {
            guarantees: guarantees.iter().map(|g| g.name).collect(),
            columns: Vec::new(),
            controls: Vec::new(),
            uncontrolled: Vec::new(),
        }
    }

    fn count(&self, word: &str) -> usize {
        let outcomes = self.columns.iter().flat_map(|column| &column.outcomes);
        outcomes.filter(|outcome| outcome.word() == word).count()
    }

    fn passed(&self) -> usize {
        let caught = self.controls.iter().filter(|c| c.caught.is_ok()).count();
        self.count("yes") + caught
    }

    /// How many guarantees are broken, controls not caught, or guarantees without a control.
    pub fn failed(&self) -> usize {
        let missed = self.controls.iter().filter(|c| c.caught.is_err()).count();
        self.count("NO") + missed + self.uncontrolled.len()
    }

    pub fn print(&self) {
        self.print_table();
        self.print_reasons();
        self.print_controls();
        println!(
            "\n{} declared as not given, {} not applicable",
            self.count("not given"),
            self.count("n/a")
        );
        println!("{} passed, {} failed", self.passed(), self.failed());
    }

    /// The page of the reference that says what each engine promises.
    pub fn page(&self) -> String {
        let mut page = String::from(PAGE_START);
        page.push_str("\n| guarantee |");
        for column in &self.columns {
            page.push_str(&format!(" {} |", column.label));
        }
        page.push_str("\n|---|");
        page.push_str(&"---|".repeat(self.columns.len()));
        for (row, guarantee) in self.guarantees.iter().enumerate() {
            page.push_str(&format!("\n| {guarantee} |"));
            for column in &self.columns {
                let word = column.outcomes.get(row).map_or("", Outcome::word);
                page.push_str(&format!(" {word} |"));
            }
        }
        page.push_str("\n\n## Why not\n\n");
        for column in &self.columns {
            for (guarantee, outcome) in self.guarantees.iter().zip(&column.outcomes) {
                if let Outcome::NotGiven(reason) = outcome {
                    let label = column.label;
                    page.push_str(&format!("- {label}, *{guarantee}*: {reason}.\n"));
                }
            }
        }
        page
    }

    fn print_table(&self) {
        let width = self
            .guarantees
            .iter()
            .map(|name| name.len())
            .max()
            .unwrap_or(0);
        print!("\n{:width$}", "guarantee");
        for column in &self.columns {
            print!("  {:label$}", column.label, label = column.width());
        }
        println!();
        for (row, guarantee) in self.guarantees.iter().enumerate() {
            print!("{guarantee:width$}");
            for column in &self.columns {
                let word = column.outcomes.get(row).map_or("", Outcome::word);
                print!("  {word:<label$}", label = column.width());
            }
            println!();
        }
    }

    fn print_reasons(&self) {
        println!("\nreasons:");
        for column in &self.columns {
            for (guarantee, outcome) in self.guarantees.iter().zip(&column.outcomes) {
                if let Some(reason) = outcome.reason() {
                    println!(
                        "  {}: {guarantee}: {}: {}",
                        column.label,
                        outcome.word(),
                        shortened(reason)
                    );
                }
            }
        }
    }

    fn print_controls(&self) {
        println!("\nengines broken on purpose, which the suite must catch:");
        for control in &self.controls {
            let (word, how) = match &control.caught {
                Ok(how) => ("caught", how.clone()),
                Err(error) => ("MISSED", error.to_string()),
            };
            let fault = format!("{:?}", control.fault);
            println!(
                "  {word}: {fault} by \"{}\": {}",
                control.guarantee,
                shortened(&how)
            );
        }
        for (guarantee, why) in WITHOUT_CONTROL {
            println!("  none for \"{guarantee}\": {why}");
        }
        for guarantee in &self.uncontrolled {
            println!("  MISSING for \"{guarantee}\"");
        }
    }
}

const PAGE_START: &str = "\
# What each engine promises

Written by `make contract`, which asks every engine; each run of the tests compares.

`yes`: the engine was asked and kept it. `not given`: it says itself that it does not, see below. `n/a`: it
cannot be asked there, or is asked in another column. Columns with `+ postgres` have the shared store, columns
with `slow network` a proxy in between that delays and cuts connections, and `node` is a Hivewire broker as a node
uses it.
";

/// How much of a reason is printed.
const REASON_BYTES_MAX: usize = 160;

fn shortened(reason: &str) -> String {
    let kept = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    let rest = if kept.len() < reason.len() {
        " …"
    } else {
        ""
    };
    format!("{kept}{rest}")
}
