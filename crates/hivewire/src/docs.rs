//! Pages of the reference that are printed rather than written, so that they stay true.

use std::fmt::Write;

use serde_json::Value;

use crate::commands::command_line;
use crate::config::known_keys;
use crate::config::live::changeable_keys;
use crate::exit::Exit;

/// The reference of the command line.
pub(crate) fn cli() -> String {
    let command = command_line();
    let mut page = String::from(
        "# Command line\n\n\
         Printed by `hivewire internal-docs cli`; a test compares.\n\n\
         Every command takes these options:\n\n",
    );
    help(
        &mut page,
        command.clone().disable_help_subcommand(true),
        "hivewire",
    );
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        section(&mut page, sub, "hivewire", 2);
    }
    exit_codes(&mut page);
    page
}

fn section(page: &mut String, command: &clap::Command, parent: &str, level: usize) {
    let name = format!("{parent} {}", command.get_name());
    let _ = write!(page, "\n{} `{name}`\n\n", "#".repeat(level));
    help(page, command.clone(), &name);
    for sub in command.get_subcommands() {
        section(page, sub, &name, level + 1);
    }
}

fn help(page: &mut String, command: clap::Command, name: &str) {
    let mut command = command
        .bin_name(name)
        .disable_help_subcommand(true)
        // Not what happens to be set where this is printed.
        .mut_args(|argument| argument.hide_env_values(true));
    let text = command.render_help().to_string();
    page.push_str("```text\n");
    for line in text.trim_end().lines() {
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page.push_str("```\n");
}

fn exit_codes(page: &mut String) {
    page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (exit, meaning) in [
        (Exit::Done, "done"),
        (Exit::Failed, "failed; the reason is on standard error"),
        (
            Exit::Usage,
            "the command line or the configuration is wrong",
        ),
        (
            Exit::TimedOut,
            "`sub` got fewer messages than `--count` before its `--timeout`, or `ask` no reply before its own",
        ),
        (
            Exit::Interrupted,
            "a second signal ended `up` before it had drained, or `crawl` was left while its crawl goes on",
        ),
    ] {
        let _ = writeln!(page, "| {} | {meaning} |", exit.code());
    }
}

/// Keys that need not stand there and have no default.
const OPTIONAL: &[&str] = &[
    "alerts.emails.authority",
    "alerts.emails.password",
    "alerts.emails.port",
    "alerts.emails.user",
    "alerts.rules.expression",
    "alerts.rules.for_seconds",
    "alerts.rules.free_percent_min",
    "alerts.rules.kind",
    "alerts.rules.more_than",
    "alerts.rules.older_than_seconds",
    "alerts.rules.queues",
    "alerts.rules.severity",
    "alerts.rules.within_seconds",
    "alerts.webhooks.authority",
    "alerts.webhooks.bearer",
    "node.name",
    "node.state",
    "plugins.repositories.token",
    "stomp.tls_certificate",
    "stomp.tls_key",
];

/// The reference of the configuration.
pub(crate) fn configuration() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("| key | default | meaning |\n|---|---|---|\n");
    for key in known_keys() {
        let default = match &key.default {
            Value::Null if key.path == CACHE_KEY => "`cache` in the data folder".to_owned(),
            Value::Null if OPTIONAL.contains(&key.path.as_str()) => "none".to_owned(),
            Value::Null => "must be given".to_owned(),
            default => format!("`{default}`"),
        };
        let meaning = meaning_of(&key.path).unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {default} | {meaning} |", key.path);
    }
    page.push_str(CHANGEABLE);
    for key in changeable_keys() {
        let _ = writeln!(page, "- `{key}`");
    }
    page.push_str(EXAMPLE);
    page
}

/// The reference of the worlds that components fit.
pub(crate) fn wit() -> String {
    format!("{WORLDS}```wit\n{}```\n", build::WIT)
}

/// The JSON Schema of flow documents.
pub(crate) fn flow_schema() -> String {
    let schema = flows::document::schema();
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    text
}

const WORLDS: &str = "# WIT

Printed by `hivewire internal-docs wit`; a test compares.

A component is a worker if it exports what the world `worker` below says, and a router if it exports
what the world `router` says. Any language with tools for the component model can do that; Hivewire
brings SDKs for Rust, JavaScript and Python, whose projects carry this text.

A component gets nothing but these imports. Those of WASI 0.2 that the tools of a language put in are
there without any capability: no files, no sockets, no environment, clocks and random numbers only.
A component that wants another import is refused at its deployment with the name of the import.

An error that a function gives back undoes the turn, as a trap does; after a trap the instance is gone. What
happens then is told in the guide \"When workers fail\".

";

/// Its default follows from another key.
const CACHE_KEY: &str = "workers.components.cache_folder";

const INTRODUCTION: &str = "# Configuration

Printed by `hivewire internal-docs configuration`; a test compares.

`hivewire up` reads `hivewire.toml` from the current folder if it is there, or the file named
with `--config`. Flags win over the file. A key that does not exist is an error that names its
line and the nearest key there is.

`[[users]]`, `[[broker.queues]]`, `[[alerts.rules]]`, `[[alerts.webhooks]]`, `[[alerts.emails]]` and
`[[plugins.repositories]]` are lists: one such section for each of them. The first of `[[broker.queues]]` whose `name` fits a
queue decides about it; a `*` at its end stands for any rest.

";

const CHANGEABLE: &str = "
## While a node runs

`hivewire config set KEY VALUE` and `PUT /api/v1/config/{key}` change these without a restart, on any node. The change wins over
file and flags, survives restarts, and is noted with who made it; `hivewire config unset KEY` takes it back.

";

const EXAMPLE: &str = "
The environment variable `HIVEWIRE_UNSAFE_SYNC=off` switches syncing off. It is for tests that
must see loss: with it, loss of power loses acknowledged messages.

An example:

```toml
data = \"/var/lib/hivewire\"

[http]
address = \"127.0.0.1:9000\"

[gamq]
address = \"off\"

[[broker.queues]]
name = \"orders.*\"
durability = \"durable\"
messages_max = 100000
when_full = \"oldest-to-dead-letters\"
```
";

fn meaning_of(path: &str) -> Option<&'static str> {
    let found = MEANINGS.iter().find(|(key, _)| *key == path);
    found.map(|(_, meaning)| *meaning)
}

#[rustfmt::skip]
const MEANINGS: &[(&str, &str)] = &[
    ("data", "the folder for journal, token and components"),
    ("allow_remote", "lets STOMP and gamq listen where other machines can reach them, although nothing is encrypted"),
    ("connections_max", "STOMP and gamq connections at a time"),
    ("users", "who may connect; as long as nobody stands here, anyone on this machine may"),
    ("users.name", "the login"),
    ("users.password", "the passcode"),
    ("users.node", "whether it is a node, which may keep state here and commit, and send to names that begin with `hivewire.`; as long as there are no users, whoever connects from the same machine may be one"),
    ("http.address", "where HTTP listens, or `off`"),
    ("http.allow_remote", "lets HTTP listen where other machines can reach it, although nothing is encrypted"),
    ("http.hosts", "further names in the Host header that are ours, such as that of a proxy"),
    ("http.connections_max", "HTTP connections at a time"),
    ("services.address", "where services listen once there is one, or `off`"),
    ("services.allow_remote", "lets services listen where other machines can reach them, although nothing is encrypted"),
    ("services.hosts", "further names in the Host header under which services are reached, such as that of a proxy"),
    ("services.origins", "origins whose web pages may ask, such as `https://front.example`, or `*` for all, besides those of the services themselves"),
    ("services.limits.connections_max", "connections at a time; more are answered with 503"),
    ("services.limits.connections_per_address_max", "connections at a time from one client address (of IPv6, one /64 network); more are answered with 503"),
    ("services.limits.header_bytes_max", "bytes of a request before its body: 431 beyond that"),
    ("services.limits.headers_max", "headers of a request, at most 100: 431 beyond that"),
    ("services.limits.uri_bytes_max", "bytes of a URI, at most 65,534: 414 beyond that"),
    ("services.limits.header_timeout_ms", "from the first byte of a request to the end of its headers: 408 after that"),
    ("services.limits.keep_alive_timeout_ms", "how long a connection may wait for its next request"),
    ("services.limits.requests_per_connection_max", "requests over one connection, one after another"),
    ("services.limits.body_bytes_max", "bytes of a body: 413 beyond that; to a stage never more than 16 MiB"),
    ("services.limits.body_gap_timeout_ms", "how long is waited for more of a body: 408 after that"),
    ("services.limits.body_timeout_ms", "how long is waited for a body in all: 408 after that"),
    ("services.limits.write_timeout_ms", "how long a client may leave an answer lying before it is cut off"),
    ("services.limits.write_bytes_per_second_min", "how much of a large answer a client must take in a second on the whole"),
    ("services.limits.requests_under_way_max", "requests that are not answered yet; more are answered with 503"),
    ("services.limits.ending_timeout_ms", "how long what is under way gets when the node ends"),
    ("stomp.address", "where STOMP listens, or `off`"),
    ("stomp.tls_address", "where STOMP listens with TLS, or `off`; beyond this machine only if users are defined"),
    ("stomp.tls_certificate", "the file (PEM) with the certificate for it, followed by those that vouch for it"),
    ("stomp.tls_key", "the file (PEM) with the key of that certificate"),
    ("stomp.body_bytes_max", "the largest body of a frame"),
    ("stomp.headers_bytes_max", "all headers of a frame together"),
    ("stomp.headers_max", "headers in a frame"),
    ("stomp.handshake_seconds_max", "time from connecting to the end of the CONNECT frame"),
    ("stomp.frame_seconds_max", "time for one frame"),
    ("stomp.subscriptions_max", "subscriptions of a connection"),
    ("stomp.transactions_max", "open transactions of a connection"),
    ("stomp.transaction_bytes_max", "what all open transactions of a connection may hold"),
    ("stomp.prefetch_messages", "messages that a client with its own acknowledgements gets before it must answer, unless it says `prefetch-count`"),
    ("stomp.heart_beat_send_ms", "the shortest time between heart-beats that we promise"),
    ("stomp.heart_beat_want_ms", "how often we want to hear from a client that can send heart-beats"),
    ("gamq.address", "where gamq listens, on TCP and UDP, or `off`"),
    ("gamq.allow_anonymous", "allows gamq although users are defined: it has no way to log in"),
    ("gamq.body_bytes_max", "the largest body"),
    ("gamq.line_bytes_max", "the longest command line"),
    ("gamq.line_seconds_max", "time for one command line"),
    ("gamq.body_seconds_max", "time for one message"),
    ("gamq.subscriptions_max", "subscriptions of a connection"),
    ("gamq.datagram_senders_max", "senders of datagrams remembered at a time"),
    ("gamq.datagram_idle_seconds_max", "a sender of datagrams silent for so long is forgotten"),
    ("gamq.datagram_buffer_bytes", "the receive buffer asked for, so that bursts of datagrams are not lost"),
    ("broker.memory_bytes_max", "bytes of messages that all queues together keep in memory; beyond it new ones wait on disk"),
    ("broker.names_max", "how many queues, and how many topics, there may be"),
    ("broker.idle_seconds_max", "a queue or topic without messages and subscribers is forgotten after that time"),
    ("broker.bucket_bytes_max", "what one bucket's state may take, in memory and on disk"),
    ("broker.buckets_max", "how many buckets there may be"),
    ("broker.state.memory_bytes_max", "bytes of state that all buckets together keep in memory; what was not changed of late is on disk, in the folder `state`"),
    ("broker.topics.memory_bytes_max", "bytes a topic keeps for subscribers that lag; beyond it these miss the oldest, which is counted"),
    ("broker.topics.tries_max", "after so many failed tries a message goes to the dead letters"),
    ("broker.queues", "rules for queues by name"),
    ("broker.queues.name", "the name of a queue; a `*` at its end stands for any rest"),
    ("broker.queues.durability", "`by-message`: the sender decides; `durable`: always stored; `transient`: never"),
    ("broker.queues.messages_max", "messages that may wait or be unacknowledged"),
    ("broker.queues.bytes_max", "bytes of messages that may wait or be unacknowledged"),
    ("broker.queues.memory_bytes_max", "bytes of it kept in memory; the rest waits on disk"),
    ("broker.queues.when_full", "`refuse` the new message, or `oldest-to-dead-letters`"),
    ("broker.queues.tries_max", "after so many failed tries a message goes to the dead letters"),
    ("journal.segment_bytes", "the size of a segment file, a multiple of 512"),
    ("journal.sync", "`fdatasync`: an acknowledgement waits for the disk; `off`: it does not, and loss of power loses messages"),
    ("workers.runtime.turn_threads", "threads that run turns; `0`: one for each core"),
    ("workers.runtime.turn_threads_max", "how many there may be when turns block or take long"),
    ("workers.runtime.send_timeout_ms", "how long a send waits for room before it fails"),
    ("workers.runtime.commit_timeout_ms", "how long a commit may take before it is in doubt"),
    ("workers.runtime.prefetch_max", "messages of one queue that may be on their way through the workers of this process"),
    ("workers.runtime.subscription_idle_ms_max", "how long a queue stays subscribed to although no worker has room for a message; it is again when one has"),
    ("workers.runtime.eager_workers_max", "workers of a stage of components that get an instance before a message comes"),
    ("workers.components.instances_max", "instances in memory at a time: so many of components with little data, and as many of others"),
    ("workers.components.memory_bytes_max", "memory that any one instance can be given, whatever its own limit says"),
    ("workers.components.dense", "reserves for each instance only the addresses it may use: room for 100,000 instances, somewhat slower code"),
    ("workers.components.stack_bytes_max", "stack that the code of a worker may use"),
    ("workers.components.table_elements_max", "elements in one table of a component"),
    ("workers.components.component_bytes_max", "the size of a component"),
    ("workers.components.functions_max", "functions in a component"),
    ("workers.components.modules_max", "core modules in a component"),
    ("workers.components.memories_max", "memories in a component"),
    ("workers.components.tables_max", "tables in a component"),
    ("workers.components.data_bytes_max", "bytes of data in a component"),
    ("workers.components.compile_ms_max", "how long a compilation may take"),
    ("workers.components.compiles_max", "compilations at a time"),
    ("workers.components.cache_folder", "where compiled code is kept for the next start; nobody else may write there"),
    ("workers.components.router.memory_bytes_max", "memory of a router that is a component"),
    ("workers.components.router.call_ms_max", "how long such a router may take for one choice"),
    ("workers.components.router.host_calls_max", "how often such a router may call the host for one choice"),
    ("workers.limits.memory_bytes_max", "memory of an instance, unless its deployment says otherwise"),
    ("workers.limits.call_ms_max", "how long one call of a worker may take, unless its deployment says otherwise"),
    ("workers.limits.host_calls_max", "how often one call of a worker may call the host, unless its deployment says otherwise"),
    ("node.bus", "the bus that the nodes share, instead of a broker in this process; several addresses are tried in turn"),
    ("node.drain_seconds_max", "how long sessions, turns and hand-overs may take to end when the node stops"),
    ("node.labels", "what distinguishes this node, each as `key=value`"),
    ("node.name", "what this node is called among others that share its work; without one it stands alone"),
    ("node.quorum_members", "members of a durable queue of RabbitMQ, over AMQP; from three on what is acknowledged survives the loss of a machine"),
    ("node.state", "the store that the nodes share, `postgres://…`; not needed with a Hivewire broker"),
    ("deploy.allow_private_sources", "lets components come from URIs that lead into this machine or its network"),
    ("deploy.fetch_seconds_max", "how long one fetch of a component may take"),
    ("deploy.watch_interval_ms", "how often a URI is looked at for another version"),
    ("alerts.built_in", "whether the rules that come with Hivewire hold"),
    ("alerts.look_every_ms", "how often is looked whether something is wrong"),
    ("alerts.group_wait_seconds", "after the first alert of a rule, others are waited for this long, so that they share a notice"),
    ("alerts.repeat_seconds", "what is still wrong is told again after this time"),
    ("alerts.tries_max", "how often a notice is tried to be sent to a receiver"),
    ("alerts.retry_ms_min", "how long to wait after the first try; it doubles with each"),
    ("alerts.retry_ms_max", "how long to wait between tries at most"),
    ("alerts.waiting_notices_max", "how many notices may wait for a receiver; what is beyond counts as failed"),
    ("alerts.rules", "rules, besides those that come with Hivewire or, under the same name, in place of them"),
    ("alerts.rules.name", "the name of the rule"),
    ("alerts.rules.kind", "`node-gone`, `stage-restarts`, `stage-failed`, `stage-stands`, `dead-letters`, `queue-age`, `disk`, `journal` or `expression`; may be left out if the name is one of them"),
    ("alerts.rules.enabled", "`false` switches the rule off"),
    ("alerts.rules.severity", "`warning` or `critical`; without it, that of the kind, and for an expression `warning`"),
    ("alerts.rules.for_seconds", "how long it has to be wrong before somebody is told: for `node-gone` 10, `queue-age` and `disk` 60, others 0"),
    ("alerts.rules.more_than", "so many restarts (10) or dead letters (10) are fine"),
    ("alerts.rules.within_seconds", "within this time: restarts 300, dead letters 600"),
    ("alerts.rules.queues", "which queues; a `*` at its end stands for any rest, and `*` for all that are not Hivewire's own"),
    ("alerts.rules.older_than_seconds", "how long the oldest message of a queue may wait: 3600"),
    ("alerts.rules.free_percent_min", "how much of the disk of the data folder has to be free: 10"),
    ("alerts.rules.expression", "for `expression`: what is wrong when it is true, in CEL, over the metrics of `/metrics`"),
    ("alerts.webhooks", "where notices are posted as JSON"),
    ("alerts.webhooks.url", "the address, http or https"),
    ("alerts.webhooks.bearer", "a secret, sent as `Authorization: Bearer …`; over http only to this machine"),
    ("alerts.webhooks.authority", "a file (PEM) with the certificates that vouch for the server, instead of the public ones"),
    ("alerts.webhooks.timeout_seconds", "how long one try may take, at most 30"),
    ("alerts.emails", "where notices are mailed"),
    ("alerts.emails.host", "the mail server"),
    ("alerts.emails.port", "its port; without it 587 for `starttls`, 465 for `tls`, 25 for `none`"),
    ("alerts.emails.tls", "`starttls`, `tls`, or `none`, which is for a server on this machine"),
    ("alerts.emails.allow_plain", "allows `none` with a server on another machine"),
    ("alerts.emails.authority", "a file (PEM) with the certificates that vouch for the server, instead of the public ones"),
    ("alerts.emails.user", "the login, if the server wants one"),
    ("alerts.emails.password", "its password"),
    ("alerts.emails.from", "who the mail is from"),
    ("alerts.emails.to", "who gets it; at least one"),
    ("alerts.emails.timeout_seconds", "how long one step of the exchange may take, at most 30"),
    ("logs.filter", "what the node logs about itself, to standard error and to its files, such as `debug` or `warn,broker=debug`"),
    ("logs.files", "whether logs, of the node and of its workers, are kept in the folder `logs` of the data folder"),
    ("logs.file_bytes_max", "how large one of these files may become"),
    ("logs.files_max", "how many there are; the oldest goes first"),
    ("logs.waiting_bytes_max", "lines that may be on their way to the disk; what is beyond is lost, and a line says how many were"),
    ("logs.followed_lines_per_second_max", "lines of this node that those who follow on other nodes get in a second; what is beyond they are told the number of"),
    ("plugins.versions_max", "versions of one plug-in that the repository of the node keeps"),
    ("plugins.repositories", "where plug-ins are looked for that the own repository lacks, in this order"),
    ("plugins.repositories.name", "what the repository is called in lists and errors"),
    ("plugins.repositories.location", "a folder with components that carry their descriptors, or the address of another node, such as `http://hive.example:8000`"),
    ("plugins.repositories.token", "the token of that node"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_meaning_and_every_meaning_a_key() {
        let keys: Vec<String> = known_keys().into_iter().map(|key| key.path).collect();
        for key in &keys {
            assert!(
                meaning_of(key).is_some(),
                "`{key}` needs a meaning in docs.rs"
            );
        }
        for (key, _) in MEANINGS {
            assert!(
                keys.iter().any(|known| known == key),
                "there is no key `{key}` any more"
            );
        }
    }

    #[test]
    fn the_example_is_a_configuration() {
        let (_, example) = EXAMPLE.split_once("```toml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        crate::config::ConfigFile::parse(std::path::Path::new("example"), example).unwrap();
    }
}
