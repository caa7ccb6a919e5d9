//! `hivewire crawl`

mod counted;
mod document;
mod progress;
mod rate;
mod results;
mod start;
mod summary;

use clap::{Args, Subcommand};

use self::results::{Export, List, Pages, Search, Show, Why};
use self::start::Start;
use super::Global;
use crate::exit::Exit;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Crawl {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    start: Start,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether, when and by which node a URL was fetched, or what stopped it
    Why(Why),
    /// Show pages that a crawl has stored
    Pages(Pages),
    /// Look for words in the text of stored pages; crawl with --search first
    Search(Search),
    /// Print all that a crawl has stored, as JSON lines or CSV
    Export(Export),
    /// Show all crawls
    List(List),
    /// Show how far a crawl is
    Show(Show),
}

impl Crawl {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        match &self.action {
            None => self.start.run(global),
            Some(Action::Why(why)) => why.run(global),
            Some(Action::Pages(pages)) => pages.run(global),
            Some(Action::Search(search)) => search.run(global),
            Some(Action::Export(export)) => export.run(global),
            Some(Action::List(list)) => list.run(global),
            Some(Action::Show(show)) => show.run(global),
        }
    }
}
