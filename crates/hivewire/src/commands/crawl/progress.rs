//! Watches a crawl until it is over.

use std::collections::{HashMap, VecDeque};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::counted::{bytes, number, rate, time};
use crate::client::{Client, encode};
use crate::commands::output::{json_line, line, printable, table};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How soon it is looked at again if it seems to be over.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often a line is printed where nothing can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Over how long the rate of now is measured.
const NOW: Duration = Duration::from_secs(5);
/// How long a node may be silent.
const PATIENCE: Duration = Duration::from_secs(60);
/// So often in a row it must be over, as what was just applied may not have begun.
const OVER_LOOKS: u32 = 2;
/// What is stored is counted as long as that takes no more than this share of the time.
const COUNTING_SHARE: u32 = 10;
const HOSTS_SHOWN: usize = 8;
const HOST_CHARACTERS_MAX: usize = 48;

/// How the watching ended.
pub(super) enum Ending {
    /// The crawl is over.
    Over(Box<Seen>),
    /// Somebody has seen enough.
    Left,
}

/// What was seen of a crawl.
pub(super) struct Seen {
    since: Instant,
    /// Since when nothing was left to do.
    over_since: Option<Instant>,
    /// How many pages had been fetched when it began to look.
    before: Option<u64>,
    pub fetched: u64,
    pub failed: u64,
    waiting: u64,
    under_way: u64,
    bytes: Option<u64>,
    /// When how many pages had been fetched, of late.
    marks: VecDeque<(Instant, u64)>,
    hosts: Vec<Host>,
    host_marks: HashMap<String, VecDeque<(Instant, u64)>>,
    /// Why there are no newer numbers.
    trouble: Option<String>,
}

struct Host {
    name: String,
    waiting: u64,
    under_way: u64,
    fetched: u64,
    per_second: f64,
}

/// Watches until it is over, or until somebody presses Ctrl-C.
pub(super) fn watch(client: &Client, flow: &str, as_json: bool) -> anyhow::Result<Ending> {
    let interrupts = interrupts()?;
    let mut view = View::new(as_json);
    let mut seen = Seen::new(Instant::now());
    let (mut answered, mut over_looks) = (Instant::now(), 0);
    let mut count_at = Instant::now();
    loop {
        let counts = Instant::now() >= count_at;
        let asked = Instant::now();
        match client.get(&path_of(flow, counts)) {
            Ok(answer) => {
                let now = Instant::now();
                if counts {
                    count_at = now + (now - asked) * COUNTING_SHARE;
                }
                answered = now;
                seen.update(&answer, now);
                check_stages(flow, &answer)?;
                match answer["over"] == true {
                    true => {
                        over_looks += 1;
                        seen.over_since.get_or_insert(asked);
                    }
                    false => {
                        over_looks = 0;
                        seen.over_since = None;
                    }
                }
            }
            Err(error) if answered.elapsed() > PATIENCE => return Err(error.into()),
            Err(error) => seen.trouble = Some(error.to_string()),
        }
        if over_looks >= OVER_LOOKS {
            view.clear();
            return Ok(Ending::Over(Box::new(seen)));
        }
        view.show(flow, &seen)?;
        let pause = match over_looks {
            0 => LOOK_EVERY,
            _ => LOOK_AGAIN,
        };
        match interrupts.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                view.clear();
                return Ok(Ending::Left);
            }
        }
    }
}

/// Where a crawl is looked at.
pub(super) fn path_of(flow: &str, counts: bool) -> String {
    let flow = encode(flow);
    format!("/api/v1/crawls/{flow}?hosts={HOSTS_SHOWN}&results={counts}")
}

/// Tells when somebody presses Ctrl-C.
fn interrupts() -> anyhow::Result<Receiver<()>> {
    let (teller, told) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot listen for Ctrl-C")?;
    std::thread::spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            // Nobody waits for it any more when the command is about to end anyway.
            let _ = teller.send(());
        } else {
            // Without signals it is watched to its end.
            std::thread::park();
        }
    });
    Ok(told)
}

/// A stage that gave up would be waited for in vain.
fn check_stages(flow: &str, answer: &Value) -> anyhow::Result<()> {
    let mut stages = answer["stages"].as_array().into_iter().flatten();
    let failed = stages.find(|stage| stage["state"] == "failed");
    match failed.and_then(|stage| stage["stage"].as_str()) {
        Some(stage) => anyhow::bail!(
            "the stage {flow}/{stage} gave up: `hivewire logs {flow}/{stage}` shows why, `hivewire restart {flow}/{stage}` starts it again"
        ),
        None => Ok(()),
    }
}

impl Seen {
    pub fn new(since: Instant) -> Self {
        Self {
            since,
            over_since: None,
            before: None,
            fetched: 0,
            failed: 0,
            waiting: 0,
            under_way: 0,
            bytes: None,
            marks: VecDeque::new(),
            hosts: Vec::new(),
            host_marks: HashMap::new(),
            trouble: None,
        }
    }

    /// Takes in what a node says.
    pub fn update(&mut self, answer: &Value, now: Instant) {
        let count = |name: &str| answer[name].as_u64().unwrap_or_default();
        // A node that was just lost takes its numbers with it for a moment.
        self.fetched = self.fetched.max(count("fetched"));
        self.failed = self.failed.max(count("failed"));
        self.before.get_or_insert(self.fetched);
        self.waiting = count("waiting");
        self.under_way = count("under_way");
        if let Some(bytes) = answer["results"]["bytes"].as_u64() {
            self.bytes = Some(bytes);
        }
        mark(&mut self.marks, now, self.fetched);
        let hosts = answer["hosts"].as_array().into_iter().flatten();
        self.hosts = hosts.map(|host| self.host(host, now)).collect();
        let missing = answer["missing"].as_object();
        let missing = missing.and_then(|missing| missing.iter().next());
        self.trouble = missing.map(|(node, why)| {
            let why = why.as_str().unwrap_or_default();
            format!("the numbers of {node} are missing: {why}")
        });
    }

    fn host(&mut self, host: &Value, now: Instant) -> Host {
        let count = |name: &str| host[name].as_u64().unwrap_or_default();
        let name = host["host"].as_str().unwrap_or_default().to_owned();
        let marks = self.host_marks.entry(name.clone()).or_default();
        mark(marks, now, count("fetched"));
        Host {
            per_second: per_second(marks),
            name,
            waiting: count("waiting"),
            under_way: count("under_way"),
            fetched: count("fetched"),
        }
    }

    /// How long it has taken since it is watched.
    pub fn elapsed(&self) -> Duration {
        self.over_since.unwrap_or_else(Instant::now) - self.since
    }

    /// How many pages were fetched while it was watched.
    pub fn fetched_since(&self) -> u64 {
        self.fetched - self.before.unwrap_or(self.fetched)
    }

    /// How many of them in a second.
    pub fn mean(&self) -> f64 {
        self.fetched_since() as f64 / self.elapsed().as_secs_f64().max(0.001)
    }

    fn queued(&self) -> u64 {
        self.waiting.saturating_sub(self.under_way)
    }

    /// All of it in one line.
    fn line(&self) -> String {
        let stored = self.bytes.map(|stored| format!(", {}", bytes(stored)));
        format!(
            "{} fetched, {} queued, {} under way, {} now, {} on average{}, {} failed",
            number(self.fetched),
            number(self.queued()),
            number(self.under_way),
            rate(per_second(&self.marks)),
            rate(self.mean()),
            stored.unwrap_or_default(),
            number(self.failed),
        )
    }

    fn block(&self, flow: &str) -> String {
        let mut text = format!("{flow}  {}\n{}\n", time(self.elapsed()), self.line());
        let row = |host: &Host| {
            vec![
                printable(&host.name, HOST_CHARACTERS_MAX),
                number(host.fetched),
                number(host.waiting.saturating_sub(host.under_way)),
                number(host.under_way),
                rate(host.per_second),
            ]
        };
        let rows: Vec<Vec<String>> = self.hosts.iter().map(row).collect();
        if !rows.is_empty() {
            let titles = ["host", "fetched", "queued", "under way", "pace"];
            text.push_str(&table(&titles, &[1, 2, 3, 4], &rows));
        }
        if let Some(trouble) = &self.trouble {
            text.push_str(&printable(trouble, 200));
        }
        text.trim_end().to_owned()
    }

    fn json(&self) -> Value {
        let host = |host: &Host| {
            json!({
                "host": host.name, "fetched": host.fetched, "waiting": host.waiting,
                "under_way": host.under_way, "per_second": host.per_second,
            })
        };
        json!({ "progress": {
            "elapsed_ms": self.elapsed().as_millis() as u64,
            "fetched": self.fetched,
            "failed": self.failed,
            "waiting": self.waiting,
            "under_way": self.under_way,
            "bytes": self.bytes,
            "per_second": per_second(&self.marks),
            "per_second_mean": self.mean(),
            "hosts": self.hosts.iter().map(host).collect::<Vec<_>>(),
            "trouble": self.trouble,
        }})
    }
}

fn mark(marks: &mut VecDeque<(Instant, u64)>, now: Instant, count: u64) {
    marks.push_back((now, count));
    // The last mark that is older stays, as the beginning of the time that is measured.
    while marks.len() > 2 && now.duration_since(marks[1].0) >= NOW {
        marks.pop_front();
    }
}

fn per_second(marks: &VecDeque<(Instant, u64)>) -> f64 {
    let (Some((from, before)), Some((to, after))) = (marks.front(), marks.back()) else {
        return 0.0;
    };
    let seconds = to.duration_since(*from).as_secs_f64();
    match seconds > 0.0 {
        true => after.saturating_sub(*before) as f64 / seconds,
        false => 0.0,
    }
}

/// Where it is shown.
enum View {
    /// Drawn again and again in the same place.
    Terminal(ProgressBar),
    /// A line now and then.
    Lines(Option<Instant>),
    Json,
}

impl View {
    fn new(as_json: bool) -> Self {
        if as_json {
            return Self::Json;
        }
        if !std::io::stdout().is_terminal() {
            return Self::Lines(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is fixed"));
        Self::Terminal(bar)
    }

    fn show(&mut self, flow: &str, seen: &Seen) -> anyhow::Result<()> {
        match self {
            Self::Terminal(bar) => {
                bar.set_message(seen.block(flow));
                bar.tick();
                Ok(())
            }
            Self::Lines(last) if last.is_some_and(|last| last.elapsed() < LINE_EVERY) => Ok(()),
            Self::Lines(last) => {
                *last = Some(Instant::now());
                line(&format!("{}: {}", time(seen.elapsed()), seen.line()))
            }
            Self::Json => json_line(&seen.json()),
        }
    }

    fn clear(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_late_and_on_average() {
        let start = Instant::now();
        let mut seen = Seen::new(start);
        for second in 0..=20_u64 {
            let fetched = 1_000
                + if second < 10 {
                    second * 100
                } else {
                    900 + second * 10
                };
            let answer = json!({
                "fetched": fetched, "failed": 2, "waiting": 30, "under_way": 4, "results": { "bytes": 1_500 },
                "hosts": [{ "host": "a.example", "fetched": fetched, "waiting": 30, "under_way": 4 }],
            });
            seen.update(&answer, start + Duration::from_secs(second));
        }
        assert_eq!(
            seen.fetched_since(),
            1_100,
            "what was there before does not count"
        );
        let line = seen.line();
        assert!(
            line.starts_with("2,100 fetched, 26 queued, 4 under way, 10.0/s now"),
            "{line}"
        );
        assert!(line.ends_with("1.5 kB, 2 failed"), "{line}");
        let block = seen.block("c");
        assert!(block.contains("a.example    2,100"), "{block}");
        // A node is gone, and its pages with it.
        seen.update(
            &json!({ "fetched": 7, "missing": { "b": "no answer" } }),
            start,
        );
        assert_eq!(seen.fetched, 2_100);
        assert!(
            seen.block("c")
                .ends_with("the numbers of b are missing: no answer")
        );
    }

    #[test]
    fn a_stage_that_gave_up_is_told() {
        let answer = json!({ "stages": [{ "stage": "a", "state": "running" }, { "stage": "b", "state": "failed" }] });
        let error = check_stages("f", &answer).unwrap_err().to_string();
        assert!(error.contains("f/b"), "{error}");
        assert!(check_stages("f", &json!({})).is_ok());
    }
}
