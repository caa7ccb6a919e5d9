//! Starts a crawl, or goes on with it, and shows how it goes.

use std::io::Write;

use clap::Args;
use flows::document::{BuiltIns, Document, check};
use serde_json::json;

use super::document::Wanted;
use super::progress::{Ending, watch};
use super::rate::Rate;
use super::summary::{self, hints};
use crate::client::{Client, encode};
use crate::commands::Global;
use crate::commands::flow_file::{APPLY_TIMEOUT, document_path};
use crate::commands::output::{json_line, line};
use crate::commands::run::print_version;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Start {
    /// Where to begin; without a scheme, https is meant
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// The name of the flow [default: crawl- and the first host]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Stay in this domain and below it; may be repeated. `=www.example.com` is that host alone [default: the domains of the URLs]
    #[arg(long = "domain", value_name = "DOMAIN")]
    domains: Vec<String>,
    /// Follow at most so many links from where it begins
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// End after so many pages
    #[arg(long, value_name = "N")]
    pages: Option<u64>,
    /// How fast one host is asked: 10/min, 2/s, or unlimited for a server of your own [default: polite, slower where answers take longer]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Where pages are stored: a folder in the node's folder for files, or postgres://… [default: crawls/NAME]
    #[arg(long, value_name = "FOLDER|URL")]
    store: Option<String>,
    /// Store no bodies: only text, headers and what else was made of them
    #[arg(long)]
    no_body: bool,
    /// Also write everything as it came into WARC files, in archives/NAME of the node's folder for files
    #[arg(long)]
    warc: bool,
    /// Build a full-text index, for `hivewire crawl search`
    #[arg(long)]
    search: bool,
    /// Allow addresses that are not public, such as those of this machine
    #[arg(long)]
    allow_private: bool,
    /// At most so many connections at a time, on each node [default: 32]
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Who asks; the first word is what robots.txt files call it
    #[arg(long, value_name = "TEXT")]
    user_agent: Option<String>,
    /// Do not wait until it is over
    #[arg(long)]
    detach: bool,
    /// Stop the flow when it is over; what was stored stays
    #[arg(long, conflicts_with = "detach")]
    remove: bool,
    /// Only print the flow document
    #[arg(long, conflicts_with_all = ["detach", "remove"])]
    print: bool,
}

impl Start {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let document = self.wanted().document()?;
        check_here(&document)?;
        if self.print {
            match global.json {
                true => json_line(&json!(document))?,
                false => std::io::stdout().write_all(document.to_toml().as_bytes())?,
            }
            return Ok(Exit::Done);
        }
        let client = global.client()?;
        let path = document_path(&document.flow);
        let answer = client.put_expected(&path, &json!(document), None, APPLY_TIMEOUT)?;
        match global.json {
            true => json_line(&answer)?,
            false => print_version(&document.flow, &answer)?,
        }
        if self.detach {
            if !global.json {
                line(&hints::while_it_runs(&document.flow))?;
            }
            return Ok(Exit::Done);
        }
        self.follow(&client, &document.flow, global.json)
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            urls: self.urls.clone(),
            name: self.name.clone(),
            domains: self.domains.clone(),
            depth: self.depth,
            pages: self.pages,
            rate: self.rate,
            store: self.store.clone(),
            keeps_bodies: !self.no_body,
            warc: self.warc,
            search: self.search,
            allow_private: self.allow_private,
            connections: self.connections,
            user_agent: self.user_agent.clone(),
        }
    }

    fn follow(&self, client: &Client, flow: &str, as_json: bool) -> anyhow::Result<Exit> {
        match watch(client, flow, as_json)? {
            Ending::Left => {
                if !as_json {
                    line(&format!("{flow} goes on without being watched"))?;
                    line(&hints::while_it_runs(flow))?;
                }
                Ok(Exit::Interrupted)
            }
            Ending::Over(seen) => {
                let exit = summary::show(client, flow, &seen, as_json)?;
                if self.remove {
                    client.delete(&format!("/api/v1/flows/{}", encode(flow)))?;
                }
                if !as_json {
                    line(&hints::when_it_is_over(flow, self.remove, self.search))?;
                }
                Ok(exit)
            }
        }
    }
}

/// Refuses what cannot work before a node is asked.
fn check_here(document: &Document) -> anyhow::Result<()> {
    let problems = check(document, &BuiltIns);
    anyhow::ensure!(
        !problems.has_errors(),
        "this cannot be crawled so: {problems}"
    );
    Ok(())
}
