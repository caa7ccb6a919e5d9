//! More stages than a heartbeat names: nodes then tell by a digest whether they go by the same
//! definitions, and everything is still where it belongs.

use anyhow::Result;
use hivewire_tests::hive::Hive;
use hivewire_tests::nodes::{SETTLE_TIMEOUT, node, relocate, wait_for_parts};
use hivewire_tests::poll::wait_until;
use hivewire_tests::workers::{component, must_deploy};
use serde_json::json;

const STAGES: usize = 230;
const DEPLOYERS: usize = 8;

/// How many stages a node has a part of, and of how many it speaks, as another one has heard.
fn held(from: &Hive, name: &str) -> Result<(usize, usize)> {
    let nodes = from.rest("GET", "/api/v1/nodes", b"")?.json()?;
    let nodes = nodes["nodes"].as_array().into_iter().flatten();
    let stages = nodes
        .filter(|node| node["name"] == name && node["state"] != "dead")
        .filter_map(|node| node["stages"].as_object());
    let mut counts = (0, 0);
    for stage in stages.flat_map(|stages| stages.values()) {
        counts.0 += usize::from(stage["parts"] != 0);
        counts.1 += 1;
    }
    Ok(counts)
}

#[test]
fn many_stages_are_shared_moved_and_taken_over() -> Result<()> {
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let ada = node("ada", &bus).start()?;
    let mut bob = node("bob", &bus).start()?;
    std::thread::scope(|scope| -> Result<()> {
        let deploy = |first: usize| {
            let ada = &ada;
            scope.spawn(move || -> Result<()> {
                for number in (first..STAGES).step_by(DEPLOYERS) {
                    let stage = format!("many/s{number}");
                    let settings = json!({ "watch": false });
                    must_deploy(ada, &component("echo"), &stage, &settings)?;
                }
                Ok(())
            })
        };
        let deploying: Vec<_> = (0..DEPLOYERS).map(deploy).collect();
        for one in deploying {
            one.join().expect("no deployer panics")?;
        }
        Ok(())
    })?;
    let mut last = Vec::new();
    let is_shared = wait_until(SETTLE_TIMEOUT, || {
        last = ["ada", "bob"]
            .iter()
            .filter_map(|name| held(&ada, name).ok())
            .collect();
        last.iter().map(|(held, _)| held).sum::<usize>() == STAGES
            // The control: what nothing is held of is not named any more.
            && last.iter().all(|(held, named)| *held > 0 && *named < STAGES)
    });
    assert!(is_shared, "{last:?} of {STAGES}");

    // Both know of the stage, though only one names it.
    for to in ["ada", "bob", "ada"] {
        relocate(&ada, "many/s7", to)?;
        wait_for_parts(&bob, "many/s7", "it was moved", |parts| {
            parts.get(to) == Some(&1) && parts.values().sum::<u64>() == 1
        })?;
    }
    bob.kill9();
    let mut last = (0, 0);
    let is_whole = wait_until(SETTLE_TIMEOUT, || {
        last = held(&ada, "ada").unwrap_or_default();
        last.0 == STAGES
    });
    assert!(is_whole, "{last:?} of {STAGES}");
    Ok(())
}
