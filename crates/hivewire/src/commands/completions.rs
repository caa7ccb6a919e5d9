//! `hivewire completions`

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use super::command_line;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> anyhow::Result<Exit> {
        // Into memory first: the generator panics when nobody reads its output.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command_line(), "hivewire", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(Exit::Done)
    }
}
