//! `hivewire deploy`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use kernel::{Address, Grant, StageAddress};
use runtime::{Delivery, KeyRule, RouterKind};
use serde_json::{Map, Value, json};

use super::Global;
use super::output::{json_line, line};
use crate::client::Client;
use crate::exit::Exit;

/// Fetching and compiling may take minutes; the node gives up before.
const DEPLOY_TIMEOUT: Duration = Duration::from_secs(900);
/// Of a digest, as many digits as people compare.
const DIGITS_SHOWN: usize = 12;

#[derive(Debug, Args)]
pub(super) struct Deploy {
    /// The component: a file, an http or https URI, a plug-in as plugin:ID@VERSION (plugin:ID is its newest version), or one that is built in as builtin:ID
    #[arg(value_name = "FILE|URI|PLUGIN")]
    source: String,
    /// The stage that it becomes, or takes over
    #[arg(long = "as", value_name = "FLOW/STAGE")]
    stage: StageAddress,
    /// How many workers [default: 1, or as many as there are]
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// How messages find their workers: round-robin, random, smallest-mailbox, broadcast, scatter-gather, tail-chopping, or the component of your own router
    #[arg(long, value_name = "KIND|FILE|URI", conflicts_with = "key")]
    router: Option<String>,
    /// Where the key is that decides on the worker: header:NAME, json:/POINTER or body
    #[arg(long, value_name = "EXPRESSION")]
    key: Option<KeyRule>,
    /// What messages and state are worth: durable or memory [default: durable]
    #[arg(long, value_name = "KIND", value_parser = parse_delivery)]
    delivery: Option<Delivery>,
    /// Where an output leads; can be repeated
    #[arg(long = "output", value_name = "NAME=ADDRESS", value_parser = parse_output)]
    outputs: Vec<(String, Address)>,
    /// What the workers may do beyond their flow, such as send:shop/bills; can be repeated
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<Grant>,
    /// What every worker gets at its start; JSON if its plug-in describes parameters
    #[arg(long, value_name = "TEXT")]
    args: Option<String>,
    /// Do not deploy again when the source changes
    #[arg(long)]
    no_watch: bool,
    /// Send the file to the node, which then does not watch it: what happens anyway when the node is on another machine
    #[arg(long)]
    upload: bool,
    /// The nodes that share it; one that is named twice gets twice as much
    #[arg(
        long,
        value_name = "NODE[,NODE…]",
        value_delimiter = ',',
        conflicts_with = "spread"
    )]
    on: Vec<String>,
    /// All nodes share it, whatever was named before
    #[arg(long)]
    spread: bool,
    /// What was named for a node that is dead waits for it, instead of going elsewhere
    #[arg(long)]
    strict: bool,
}

fn parse_delivery(text: &str) -> Result<Delivery, String> {
    match text {
        "durable" => Ok(Delivery::Durable),
        "memory" => Ok(Delivery::Memory),
        _ => Err("choose durable or memory".to_owned()),
    }
}

fn parse_output(text: &str) -> Result<(String, Address), String> {
    let Some((name, address)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err("write it as NAME=ADDRESS".to_owned());
    };
    let address = address.parse::<Address>();
    Ok((name.to_owned(), address.map_err(|error| error.to_string())?))
}

impl Deploy {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let request = self.request(&client)?;
        let answer = client.post_within("/api/v1/deployments", &request, DEPLOY_TIMEOUT)?;
        if global.json {
            json_line(&answer)?;
            return Ok(Exit::Done);
        }
        let digest = answer["digest"].as_str().unwrap_or_default();
        let digest: String = digest.chars().take(DIGITS_SHOWN).collect();
        let what = match (&answer["replaced"], &answer["changed"]) {
            (_, Value::Bool(false)) => "was already",
            (Value::Bool(true), _) => "replaced by",
            _ => "is",
        };
        let watching = match request["watch"].as_bool() {
            Some(true) => ", its source is watched",
            _ => "",
        };
        let (stage, version) = (&self.stage, &answer["version"]);
        line(&format!(
            "{stage} {what} version {version} ({digest}){watching}"
        ))?;
        Ok(Exit::Done)
    }

    fn request(&self, client: &Client) -> anyhow::Result<Value> {
        let source = self.place(client, &self.source)?;
        let is_fixed = [UPLOADED, PLUGIN, BUILT_IN]
            .iter()
            .any(|start| source.starts_with(start));
        let watched = !self.no_watch && !is_fixed;
        let mut request = Map::new();
        request.insert("as".into(), json!(self.stage));
        request.insert("source".into(), source.into());
        request.insert("watch".into(), watched.into());
        let mut given = |key: &str, value: Option<Value>| {
            request.extend(value.map(|value| (key.to_owned(), value)));
        };
        given("workers", self.workers.map(Value::from));
        given("key", self.key.as_ref().map(|key| json!(key)));
        given("delivery", self.delivery.map(|delivery| json!(delivery)));
        given("args", self.args.clone().map(Value::from));
        let router = match &self.router {
            Some(router) => Some(self.router(client, router)?.into()),
            None => None,
        };
        given("router", router);
        given("on", (!self.on.is_empty()).then(|| json!(self.on)));
        given("spread", self.spread.then(|| true.into()));
        given("strict", self.strict.then(|| true.into()));
        if !self.grants.is_empty() {
            given("grants", Some(json!(self.grants)));
        }
        if !self.outputs.is_empty() {
            let mut outputs: BTreeMap<&str, Vec<&Address>> = BTreeMap::new();
            for (name, address) in &self.outputs {
                outputs.entry(name).or_default().push(address);
            }
            given("outputs", Some(json!(outputs)));
        }
        Ok(request.into())
    }

    fn router(&self, client: &Client, text: &str) -> anyhow::Result<String> {
        match text.parse::<RouterKind>() {
            Ok(kind) => Ok(kind.to_string()),
            Err(error) if !is_uri(text) && !Path::new(text).exists() => {
                anyhow::bail!("{error}, or name the component of your own: there is no file {text}")
            }
            Err(_) => self.place(client, text),
        }
    }

    /// A source as the node understands it: what it cannot see is sent to it.
    fn place(&self, client: &Client, text: &str) -> anyhow::Result<String> {
        if is_uri(text) || text.starts_with(PLUGIN) || text.starts_with(BUILT_IN) {
            return Ok(text.to_owned());
        }
        let path = absolute(Path::new(text))?;
        if client.is_local() && !self.upload {
            let path = path.into_os_string().into_string();
            return path.map_err(|path| {
                let path = path.display();
                anyhow::anyhow!("{path} is not UTF-8: give the file another name, or add --upload")
            });
        }
        let bytes = std::fs::read(&path);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        let answer = client.put("/api/v1/components", &bytes, DEPLOY_TIMEOUT)?;
        let digest = answer["digest"]
            .as_str()
            .context("the node gave no digest")?;
        Ok(format!("{UPLOADED}{digest}"))
    }
}

const UPLOADED: &str = "sha256:";
const PLUGIN: &str = "plugin:";
const BUILT_IN: &str = "builtin:";

fn is_uri(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// The path as any process sees it. Links stay, for they may be what changes.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    anyhow::ensure!(
        path.is_file(),
        "there is no file {}: build the component first, with `hivewire build`",
        path.display()
    );
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}
