//! `hivewire internal-docs`: prints pages of the reference, so that a test can compare them.

use std::io::Write;

use clap::{Args, ValueEnum};

use crate::docs;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct InternalDocs {
    /// Which page
    #[arg(value_enum)]
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    Cli,
    Configuration,
    FlowSchema,
    Openapi,
    Plugins,
    Wit,
}

impl InternalDocs {
    pub fn run(&self) -> anyhow::Result<Exit> {
        let text = match self.page {
            Page::Cli => docs::cli(),
            Page::Configuration => docs::configuration(),
            Page::FlowSchema => docs::flow_schema(),
            Page::Openapi => crate::rest::openapi_text(),
            Page::Plugins => flows::plugins::reference(),
            Page::Wit => docs::wit(),
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(Exit::Done)
    }
}
