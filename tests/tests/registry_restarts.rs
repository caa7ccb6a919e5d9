//! The registry holds no truth of its own. Whichever node one asks may be killed in the middle of a request and
//! start again with nothing: what was acknowledged by any node holds on all of them, and messages flow on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hivewire_tests::hive::Hive;
use hivewire_tests::http::{self, Response};
use hivewire_tests::nodes::{SETTLE_TIMEOUT, Stream, StreamSettings, node};
use hivewire_tests::poll::wait_until;
use hivewire_tests::soak;
use hivewire_tests::workers::{component, must_deploy};
use serde_json::{Value, json};

const NAMES: [&str; 3] = ["a", "b", "c"];
const TALLY: &str = "shop/tally";
/// How often a node is killed.
const KILLS: u64 = 6;
/// How many requests are made around each kill, and how many of them before it.
const REQUESTS: usize = 6;
const REQUESTS_BEFORE: usize = 3;
const STAGES: usize = 5;
/// How long a request is repeated before it counts as refused.
const PATIENCE: Duration = Duration::from_secs(60);

/// What every stage is to be: how many workers, or none if it is stopped.
type Wishes = BTreeMap<String, Option<u64>>;

/// Where a node answers. Its token changes when it loses its folder.
#[derive(Clone)]
struct Door {
    http: SocketAddr,
    data: PathBuf,
}

impl Door {
    fn of(hive: &Hive) -> Self {
        Self {
            http: hive.http_address(),
            data: hive.data().to_owned(),
        }
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Response> {
        let token = std::fs::read_to_string(self.data.join("token"))?;
        let authorization = format!("Bearer {}", token.trim());
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Content-Type", "application/json"),
        ];
        Ok(http::request(self.http, method, path, &headers, body)?)
    }
}

/// Makes a request until some node acknowledges it, beginning with this one.
fn insist(doors: &[Door], first: usize, method: &str, path: &str, body: &Value) -> Result<()> {
    let body = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let began = Instant::now();
    for turn in first.. {
        let last = match doors[turn % doors.len()].ask(method, path, &body) {
            Ok(answer) if answer.status < 300 => return Ok(()),
            // It was done, but nobody lived to say so.
            Ok(answer) if answer.status == 404 && method == "DELETE" => return Ok(()),
            Ok(answer) => format!("{}: {}", answer.status, answer.text()),
            Err(error) => error.to_string(),
        };
        if began.elapsed() > PATIENCE {
            bail!("{method} {path} {body:?}: {last}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    unreachable!("turns do not end")
}

/// Makes some changes, each acknowledged before the next.
fn make_changes(
    doors: &[Door],
    victim: usize,
    from: usize,
    done: &AtomicUsize,
    wishes: &mut Wishes,
) -> Result<()> {
    for number in from..from + REQUESTS {
        let stage = format!("flow{}/echo", number % STAGES);
        let path = format!("/api/v1/flows/{stage}");
        if number % 4 == 3 && wishes.get(&stage).is_some_and(Option::is_some) {
            insist(doors, victim, "DELETE", &path, &Value::Null)?;
            wishes.insert(stage, None);
        } else {
            let workers = 1 + number as u64 % 3;
            let deployment = json!({
                "as": stage, "source": component("echo"), "watch": false, "workers": workers,
            });
            insist(doors, victim, "POST", "/api/v1/deployments", &deployment)?;
            wishes.insert(stage, Some(workers));
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// What a node says that there is, in the same form.
fn shown(door: &Door) -> Result<Wishes> {
    let flows = door.ask("GET", "/api/v1/flows", b"")?.json()?;
    let flows = flows["flows"].as_array().context("a list of flows")?;
    let stages = flows.iter().flat_map(|flow| flow["stages"].as_array());
    let stages = stages.flatten().map(|stage| {
        let address = stage["spec"]["address"].as_str().unwrap_or_default();
        (address.to_owned(), stage["workers_count"].as_u64())
    });
    Ok(stages.filter(|(stage, _)| stage != TALLY).collect())
}

/// What is not as it should be.
fn differences(wishes: &Wishes, shown: &Wishes) -> Vec<String> {
    let wanted = wishes.iter().filter(|(_, workers)| workers.is_some());
    let wanted: Wishes = wanted.map(|(s, w)| (s.clone(), *w)).collect();
    let mut wrong = Vec::new();
    for stage in wanted.keys().chain(shown.keys()) {
        let (wanted, shown) = (wanted.get(stage), shown.get(stage));
        if wanted != shown {
            wrong.push(format!("{stage} should be {wanted:?} and is {shown:?}"));
        }
    }
    wrong
}

/// Names of the nodes that live, as a node has heard.
fn living(door: &Door) -> Result<Vec<String>> {
    let nodes = door.ask("GET", "/api/v1/nodes", b"")?.json()?;
    let nodes = nodes["nodes"].as_array().context("a list of nodes")?;
    let living = nodes.iter().filter(|node| node["state"] == "running");
    let mut names: Vec<String> = living
        .filter_map(|node| Some(node["name"].as_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn stream(broker: &Hive) -> Stream {
    Stream::start(&StreamSettings {
        address: broker.stomp_address(),
        to: "/queue/shop.tally".to_owned(),
        from: "/queue/totals".to_owned(),
        connect: Vec::new(),
        subscribe: Vec::new(),
        id_header: None,
        keys: 20,
        rate: 300,
    })
}

#[test]
fn what_was_acknowledged_holds_whichever_node_is_killed_and_starts_empty() -> Result<()> {
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let mut nodes = Vec::new();
    for name in NAMES {
        nodes.push(node(name, &bus).start()?);
    }
    let doors: Vec<Door> = nodes.iter().map(Door::of).collect();
    let tally = json!({
        "key": "header:key", "workers": 2, "outputs": { "out": ["queue:totals"] },
    });
    must_deploy(&nodes[0], &component("tally"), TALLY, &tally)?;
    let stream = stream(&broker);
    stream.wait_for(100)?;
    let mut wishes = Wishes::new();
    for kill in 0..soak::times(KILLS) as usize {
        let victim = kill % nodes.len();
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let wishes = &mut wishes;
            let (doors, done) = (&doors, &done);
            let changing =
                scope.spawn(move || make_changes(doors, victim, kill * REQUESTS, done, wishes));
            // The next request is on its way when the node dies.
            let begun = wait_until(PATIENCE, || {
                done.load(Ordering::SeqCst) >= REQUESTS_BEFORE || changing.is_finished()
            });
            ensure!(begun, "no request was acknowledged");
            nodes[victim].kill9();
            std::fs::remove_dir_all(nodes[victim].data())?;
            std::fs::create_dir(nodes[victim].data())?;
            nodes[victim].start_again()?;
            changing
                .join()
                .map_err(|_| anyhow::anyhow!("it panicked"))?
        })?;
    }
    for (name, door) in NAMES.iter().zip(&doors) {
        let mut wrong = vec!["never asked".to_owned()];
        let settled = wait_until(SETTLE_TIMEOUT, || {
            wrong = match shown(door) {
                Ok(shown) => differences(&wishes, &shown),
                Err(error) => vec![error.to_string()],
            };
            wrong.is_empty()
        });
        ensure!(settled, "{name}: {wrong:?}");
        let all_live = wait_until(SETTLE_TIMEOUT, || living(door).is_ok_and(|l| l == NAMES));
        ensure!(all_live, "{name} hears {:?}", living(door)?);
    }
    // The same comparison must find a stage that is not as it should be.
    let stage = wishes.keys().next().context("a stage")?.clone();
    wishes.insert(stage, Some(17));
    assert!(!differences(&wishes, &shown(&doors[0])?).is_empty());
    let judgement = stream.finish()?;
    assert!(judgement.sent > 500, "{judgement:?}");
    assert!(judgement.is_clean(), "{judgement:?}");
    Ok(())
}

#[test]
fn whatever_differs_is_found() {
    let of = |pairs: &[(&str, Option<u64>)]| -> Wishes {
        pairs.iter().map(|(s, w)| ((*s).to_owned(), *w)).collect()
    };
    let wishes = of(&[("f/a", Some(1)), ("f/b", None)]);
    assert!(differences(&wishes, &of(&[("f/a", Some(1))])).is_empty());
    assert!(!differences(&wishes, &of(&[])).is_empty());
    assert!(!differences(&wishes, &of(&[("f/a", Some(2))])).is_empty());
    assert!(!differences(&wishes, &of(&[("f/a", Some(1)), ("f/b", Some(1))])).is_empty());
}
