//! The commands of the binary: one file each, one line each in `Command`.

mod alerts;
mod apply;
mod bench;
mod build;
mod check;
mod completions;
mod config;
mod crawl;
mod dead;
mod deploy;
mod diff;
mod events;
mod explain;
mod export;
mod flow_file;
mod history;
mod internal_docs;
mod join;
mod logs;
mod new;
mod node_flags;
mod nodes;
mod output;
mod pause;
mod plugins;
mod profile;
mod ps;
mod publish;
mod queues;
mod run;
mod send;
mod services;
mod stop;
mod subscribe;
mod time;
mod top;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::client::Client;
use crate::config::{Config, Overrides};
use crate::data_folder;
use crate::exit::{Exit, is_broken_pipe};
use crate::logging::{self, LogFormat};

/// Hivewire: workers that are replaced while they run, over a durable message broker, in one binary.
#[derive(Parser)]
#[command(name = "hivewire", version)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command understands. No `Debug`: it holds the token.
#[derive(Args)]
struct Global {
    /// Print results as JSON
    #[arg(long, global = true)]
    json: bool,
    /// The node to talk to
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "HIVEWIRE_SERVER",
        default_value = "http://127.0.0.1:8000"
    )]
    server: String,
    /// The token of the node; without it, the one in the data folder is taken
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "HIVEWIRE_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// The data folder, with the journal and the token [default: that of ./hivewire.toml, or hivewire-data here; for its token also in folders above]
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// What to log, such as `debug` or `warn,broker=debug`
    #[arg(long, global = true, value_name = "FILTER", env = "HIVEWIRE_LOG")]
    log: Option<String>,
    /// How log lines look
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    log_format: LogFormat,
}

impl Global {
    /// A client of the node. Where its token lies may stand in the configuration.
    fn client(&self) -> anyhow::Result<Client> {
        let data = match (&self.data, &self.token) {
            (Some(data), _) => data.clone(),
            (None, Some(_)) => PathBuf::new(),
            (None, None) => data_folder::find(&Config::load(None, &Overrides::default())?.data),
        };
        Ok(Client::new(&self.server, self.token.as_deref(), &data)?)
    }
}

#[derive(Subcommand)]
enum Command {
    /// Start a node
    Up(up::Up),
    /// Make this process a node among others that share a bus and their work
    Join(join::Join),
    /// Publish messages: arguments, a file, or standard input
    Pub(publish::Publish),
    /// Take messages off a queue, or listen to a topic, and print them
    Sub(subscribe::Subscribe),
    /// Show all queues
    Queues(queues::Queues),
    /// List, replay or purge dead letters
    Dead(dead::Dead),
    /// Make a new worker project
    New(new::New),
    /// Build a worker project into a component
    Build(build::Build),
    /// Deploy a component as a stage, or replace the code of one that runs
    Deploy(deploy::Deploy),
    /// Check a flow document, and point at what is wrong
    Check(check::Check),
    /// Deploy a flow document
    Run(run::Run),
    /// Change a flow that runs to a document, by the fewest steps
    Apply(apply::Apply),
    /// Show what a flow document would change
    Diff(diff::Diff),
    /// Print the document of a flow
    Export(export::Export),
    /// Crawl a site, and look at what was found
    Crawl(crawl::Crawl),
    /// Show, push, pull and remove plug-ins: workers' code by id and version
    Plugins(plugins::Plugins),
    /// Show flows and stages, or one stage with its workers
    Ps(ps::Ps),
    /// Watch stages in the terminal: rates, latency, depth, workers, last decisions
    Top(top::Top),
    /// Say why a stage has as many workers as it has: each decision with its numbers
    Explain(explain::Explain),
    /// Send a message to a stage, a worker, a queue or a topic
    Send(send::Send),
    /// Send a message to a stage or worker and print the reply
    Ask(send::Ask),
    /// Show which requests over HTTP stages answer, where, and how it goes with them
    Services(services::Services),
    /// Show what the workers of a stage wrote, or the logs of all nodes
    Logs(logs::Logs),
    /// Stop a flow, a stage or a worker; what waits stays in the queue
    Stop(stop::Stop),
    /// Start the workers of a stage again, with their state or without it
    Restart(stop::Restart),
    /// Let a stage take nothing, on all nodes and after restarts; what comes waits
    Pause(pause::Pause),
    /// Let a stage take everything again after a pause
    Resume(pause::Resume),
    /// Give a stage another number of workers
    Scale(nodes::Scale),
    /// Show the nodes that share the work
    Nodes(nodes::Nodes),
    /// Move a flow, a stage or a worker to another node
    Move(nodes::Move),
    /// Let a node give everything away to the others
    Drain(nodes::Drain),
    /// Pause, resume, stop, change or profile a node
    Node(nodes::Node),
    /// Show the configuration of a node, or change it while the node runs
    Config(config::Config),
    /// Show what is wrong, keep it quiet for a while, or test who is told
    Alerts(alerts::Alerts),
    /// Show what happens on all nodes: nodes, stages, alerts, requests, notes
    Events(events::Events),
    /// Show what happened to stages: versions, rollbacks and why
    History(history::History),
    /// Measure throughput and latency of a node that runs
    Bench(bench::Bench),
    /// Print the completion script for a shell
    Completions(completions::Completions),
    /// Print a page of the reference
    #[command(hide = true)]
    InternalDocs(internal_docs::InternalDocs),
}

impl Command {
    fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            Self::Up(command) => command.run(global),
            Self::Join(command) => command.run(global),
            Self::Pub(command) => command.run(global),
            Self::Sub(command) => command.run(global),
            Self::Queues(command) => command.run(global),
            Self::Dead(command) => command.run(global),
            Self::New(command) => command.run(global),
            Self::Build(command) => command.run(global),
            Self::Deploy(command) => command.run(global),
            Self::Check(command) => command.run(global),
            Self::Run(command) => command.run(global),
            Self::Apply(command) => command.run(global),
            Self::Diff(command) => command.run(global),
            Self::Export(command) => command.run(global),
            Self::Crawl(command) => command.run(global),
            Self::Plugins(command) => command.run(global),
            Self::Ps(command) => command.run(global),
            Self::Top(command) => command.run(global),
            Self::Explain(command) => command.run(global),
            Self::Send(command) => command.run(global),
            Self::Ask(command) => command.run(global),
            Self::Services(command) => command.run(global),
            Self::Logs(command) => command.run(global),
            Self::Stop(command) => command.run(global),
            Self::Restart(command) => command.run(global),
            Self::Pause(command) => command.run(global),
            Self::Resume(command) => command.run(global),
            Self::Scale(command) => command.run(global),
            Self::Nodes(command) => command.run(global),
            Self::Move(command) => command.run(global),
            Self::Drain(command) => command.run(global),
            Self::Node(command) => command.run(global),
            Self::Config(command) => command.run(global),
            Self::Alerts(command) => command.run(global),
            Self::Events(command) => command.run(global),
            Self::History(command) => command.run(global),
            Self::Bench(command) => command.run(global),
            Self::Completions(command) => command.run(),
            Self::InternalDocs(command) => command.run(),
        }
    }

    /// Whether it is a node, which keeps its log.
    fn is_node(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Join(_))
    }

    fn default_log(&self) -> &'static str {
        match self.is_node() {
            true => "info",
            false => "warn",
        }
    }
}

/// The whole command line, for its reference and for completion.
pub(crate) fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the binary.
pub fn run() -> ExitCode {
    // So that documents can be checked without a node.
    flows::plugins::add(::crawl::PLUGINS);
    let cli = Cli::parse();
    let filter = cli
        .global
        .log
        .as_deref()
        .unwrap_or(cli.command.default_log());
    let result = logging::start(filter, cli.global.log_format, cli.command.is_node())
        .and_then(|()| cli.command.run(&cli.global));
    let exit = result.unwrap_or_else(|error| {
        if !is_broken_pipe(&error) {
            eprintln!("hivewire: {}", explained(&error));
        }
        Exit::of_error(&error)
    });
    exit.into()
}

/// An error with its causes, but for those that its text holds already.
fn explained(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.push_str(separator);
            text.push_str(&cause);
        }
    }
    text
}
