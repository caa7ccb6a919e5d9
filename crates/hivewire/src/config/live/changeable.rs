//! Which keys can be changed while a node runs, and how. This is the only list of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker::Broker;

use crate::alerts::{AlertService, Plan};
use crate::config::Config;
use crate::deploy::Deployments;
use crate::logging;
use crate::logs::{LogStore, filter_of};

/// The parts of a node that go by the configuration.
pub(crate) struct Parts {
    pub logs: Arc<LogStore>,
    pub http_connections_max: Arc<AtomicUsize>,
    /// The broker in this process, if there is one.
    pub broker: Option<Arc<Broker>>,
    pub deployments: Arc<Deployments>,
    pub alerts: Arc<AlertService>,
}

/// A key that can be changed.
pub(super) struct Changeable {
    pub key: &'static str,
    /// Takes the value over from another configuration.
    pub copy: fn(&mut Config, &Config),
    /// Makes the node go by it. The configuration was checked before.
    pub apply: fn(&Parts, &Config),
}

macro_rules! changeable {
    ($($key:literal => $($field:ident).+, $apply:expr;)+) => {
        &[$(Changeable {
            key: $key,
            copy: |to, from| to.$($field).+.clone_from(&from.$($field).+),
            apply: $apply,
        }),+]
    };
}

/// All of them.
pub(super) const CHANGEABLE: &[Changeable] = changeable! {
    "alerts.built_in" => alerts.built_in, alerts;
    "alerts.group_wait_seconds" => alerts.group_wait_seconds, alerts;
    "alerts.look_every_ms" => alerts.look_every_ms, alerts;
    "alerts.repeat_seconds" => alerts.repeat_seconds, alerts;
    "alerts.rules" => alerts.rules, alerts;
    "broker.bucket_bytes_max" => broker.bucket_bytes_max, broker;
    "broker.buckets_max" => broker.buckets_max, broker;
    "broker.idle_seconds_max" => broker.idle_seconds_max, broker;
    "broker.memory_bytes_max" => broker.memory_bytes_max, broker;
    "broker.names_max" => broker.names_max, broker;
    "broker.queues" => broker.queues, broker;
    "broker.state.memory_bytes_max" => broker.state.memory_bytes_max, broker;
    "broker.topics.memory_bytes_max" => broker.topics.memory_bytes_max, broker;
    "broker.topics.tries_max" => broker.topics.tries_max, broker;
    "deploy.fetch_seconds_max" => deploy.fetch_seconds_max, deploy;
    "deploy.watch_interval_ms" => deploy.watch_interval_ms, deploy;
    "http.connections_max" => http.connections_max, http;
    "logs.file_bytes_max" => logs.file_bytes_max, logs;
    "logs.files" => logs.files, logs;
    "logs.files_max" => logs.files_max, logs;
    "logs.filter" => logs.filter, log_filter;
    "logs.followed_lines_per_second_max" => logs.followed_lines_per_second_max, logs;
    "logs.waiting_bytes_max" => logs.waiting_bytes_max, logs;
    "node.drain_seconds_max" => node.drain_seconds_max, when_asked;
    "workers.runtime.prefetch_max" => workers.runtime.prefetch_max, prefetch;
};

/// Their names.
pub(crate) fn changeable_keys() -> impl Iterator<Item = &'static str> {
    CHANGEABLE.iter().map(|changeable| changeable.key)
}

/// The key of this name, if it can be changed.
pub(super) fn find(key: &str) -> Option<&'static Changeable> {
    CHANGEABLE.iter().find(|changeable| changeable.key == key)
}

fn alerts(parts: &Parts, config: &Config) {
    match Plan::new(&config.alerts) {
        Ok(plan) => parts.alerts.change(plan),
        Err(error) => tracing::error!(%error, "the alerts stay as they are"),
    }
}

fn broker(parts: &Parts, config: &Config) {
    if let Some(broker) = &parts.broker {
        broker.change_settings(config.broker.clone());
    }
}

fn deploy(parts: &Parts, config: &Config) {
    parts.deployments.change_settings(&config.deploy);
}

fn http(parts: &Parts, config: &Config) {
    let connections_max = config.http.connections_max;
    parts
        .http_connections_max
        .store(connections_max, Ordering::Relaxed);
}

fn logs(parts: &Parts, config: &Config) {
    parts.logs.change(&config.logs);
}

fn log_filter(_: &Parts, config: &Config) {
    if let Ok(filter) = filter_of(&config.logs.filter) {
        logging::set_filter(filter);
    }
}

fn prefetch(parts: &Parts, config: &Config) {
    let prefetch_max = config.workers.runtime.prefetch_max;
    parts.deployments.runtime().set_prefetch(prefetch_max);
}

/// Whoever needs it looks when it does.
fn when_asked(_: &Parts, _: &Config) {}

/// What the types of the values cannot say, of these keys.
pub(super) fn check(config: &Config, keys: &[&str]) -> Result<(), String> {
    Plan::new(&config.alerts).map_err(|error| error.to_string())?;
    config.logs.check().map_err(|error| error.to_string())?;
    let broker = &config.broker;
    let least = [
        ("broker.names_max", broker.names_max as u64, 1),
        ("broker.buckets_max", broker.buckets_max as u64, 1),
        ("broker.idle_seconds_max", broker.idle_seconds_max, 1),
        (
            "deploy.fetch_seconds_max",
            config.deploy.fetch_seconds_max,
            1,
        ),
        (
            "deploy.watch_interval_ms",
            config.deploy.watch_interval_ms,
            10,
        ),
        (
            "http.connections_max",
            config.http.connections_max as u64,
            1,
        ),
        (
            "workers.runtime.prefetch_max",
            config.workers.runtime.prefetch_max.into(),
            1,
        ),
    ];
    let too_small = |(key, value, least): &&(&str, u64, u64)| keys.contains(key) && value < least;
    match least.iter().find(too_small) {
        Some((key, _, least)) => Err(format!("`{key}` is at least {least}")),
        None => Ok(()),
    }
}
