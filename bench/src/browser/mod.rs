//! The studio in a real browser, in front of a node that is busy with a large flow.
//!
//! The browser is driven by `studio/dev/measure.mjs`, in a process of its own; here is the node, and the flow that it looks at.

mod flow;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::peers::hivewire::Hivewire;
use crate::peers::program::output_of;
use crate::peers::rest::Request;
use crate::peers::{PeerError, Result};

pub use flow::{EDGES, FLOW, STAGE, STAGES};

/// A simulated day takes minutes.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A node with the large flow. Dropping it ends the node.
#[derive(Debug)]
pub struct Shown {
    node: Hivewire,
    /// Whether the flow runs.
    is_busy: bool,
}

/// What the program printed.
#[derive(Clone, Debug, Deserialize)]
pub struct Seen {
    /// The figure.
    pub value: f64,
    /// What else was seen.
    pub note: String,
}

impl Shown {
    /// Starts a node, on which nothing runs.
    pub fn start() -> Result<Self> {
        Ok(Self {
            node: Hivewire::start()?,
            is_busy: false,
        })
    }

    /// Lets the large flow run.
    pub fn run_flow(&mut self) -> Result<()> {
        if self.is_busy {
            return Ok(());
        }
        let token = self.node.token()?;
        let document = flow::document().to_string();
        let request = Request {
            method: "PUT",
            path: &format!("/api/v1/documents/{FLOW}"),
            token: Some(&token),
            body: document.as_bytes(),
            is_json: true,
        };
        request.send(self.node.http_address())?;
        self.is_busy = true;
        Ok(())
    }

    /// Measures one thing in a browser.
    pub fn measure(&self, arguments: &[&str]) -> Result<Seen> {
        let mut command = Command::new("node");
        command
            .arg("dev/measure.mjs")
            .args(arguments)
            .current_dir(studio())
            .env("STUDIO", format!("http://{}", self.node.http_address()))
            .env("TOKEN", self.node.token()?)
            .env("FLOW", FLOW)
            .env("STAGE", STAGE);
        let text = output_of("node", command, PATIENCE)?;
        serde_json::from_str(&text).map_err(|error| unexpected(&text, &error.to_string()))
    }
}

/// How large the built studio is as browsers fetch it, in KiB.
pub fn size() -> Result<Seen> {
    let mut command = Command::new("node");
    command.arg("dev/size.mjs").current_dir(studio());
    let text = output_of("node", command, PATIENCE)?;
    let last = text.lines().last().unwrap_or_default();
    let value = last.split_whitespace().next().unwrap_or_default();
    Ok(Seen {
        value: value
            .parse()
            .map_err(|error| unexpected(&text, &format!("{error}")))?,
        note: String::new(),
    })
}

fn studio() -> PathBuf {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench).join("studio")
}

fn unexpected(text: &str, why: &str) -> PeerError {
    PeerError::UnexpectedAnswer {
        peer: "the browser".to_owned(),
        answer: format!("{text} ({why})"),
    }
}
