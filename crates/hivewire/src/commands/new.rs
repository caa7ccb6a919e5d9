//! `hivewire new`

use std::path::PathBuf;

use build::Language;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::Global;
use super::output::{json_line, line};
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct New {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a folder with a worker that builds
    Worker {
        /// The name of the worker, and of the folder
        name: String,
        /// The language
        #[arg(long = "lang", value_name = "LANGUAGE", value_enum, default_value_t)]
        language: LanguageName,
    },
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LanguageName {
    #[default]
    Rust,
    Js,
    Python,
}

impl From<LanguageName> for Language {
    fn from(name: LanguageName) -> Self {
        match name {
            LanguageName::Rust => Self::Rust,
            LanguageName::Js => Self::Js,
            LanguageName::Python => Self::Python,
        }
    }
}

impl New {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let What::Worker { name, language } = &self.what;
        let folder = PathBuf::from(name);
        let files = build::create(&folder, name, (*language).into())?;
        if global.json {
            json_line(&json!({ "folder": folder, "files": files }))?;
        } else {
            line(&format!(
                "{name} is there with {} files; {name}/README.md says what it needs\n\
                 build it: hivewire build {name}",
                files.len()
            ))?;
        }
        Ok(Exit::Done)
    }
}
