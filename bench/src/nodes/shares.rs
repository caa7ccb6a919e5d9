//! How evenly nodes share stages, and how much moves when one more joins.

use std::collections::BTreeMap;

use control::Claims;
use serde_json::json;

use super::beats::Beats;
use super::cluster::{Cluster, PARTS};
use super::{Result, wait_for};

/// What was seen, of each stage.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How many hundredths of the stage lie between the nodes with most and least of it.
    pub differences: Vec<f64>,
    /// How many hundredths of it moved when the third node joined.
    pub moved: Vec<f64>,
}

/// Shares so many stages among two nodes, and then among three.
pub fn share(stages: u32) -> Result<Seen> {
    let names: Vec<String> = (0..stages).map(|n| format!("shop/stage-{n}")).collect();
    let mut cluster = Cluster::start(&["a", "b"])?;
    let beats = Beats::listen(cluster.address())?;
    for name in &names {
        cluster.deploy("hoard", name, &json!({ "workers": 8 }))?;
    }
    let mut before = Vec::new();
    for name in &names {
        cluster.wait_until_shared(name, 2)?;
        before.push(settled(&beats, name, 2)?);
    }
    cluster.join("c")?;
    let (mut differences, mut moved) = (Vec::new(), Vec::new());
    for (name, before) in names.iter().zip(before) {
        let parts = cluster.wait_until_shared(name, 3)?;
        differences.push(difference(&parts));
        moved.push(moved_part(&before, &settled(&beats, name, 3)?));
    }
    Ok(Seen { differences, moved })
}

/// Which node has each part, once so many have them all.
fn settled(beats: &Beats, stage: &str, nodes: usize) -> Result<Vec<String>> {
    wait_for(&format!("that {nodes} nodes say what they have"), || {
        let holds = beats.holds(stage);
        let having = holds.values().filter(|parts| parts.count() > 0).count();
        let counts = format!("{holds:?}");
        let all = owners(&holds).filter(|_| having == nodes);
        Ok(all.ok_or(counts))
    })
}

/// The node of each part; none if a part has not just one.
fn owners(holds: &BTreeMap<String, Claims>) -> Option<Vec<String>> {
    let owner = |part: u32| {
        let mut owners = holds.iter().filter(|(_, parts)| parts.contains(part));
        match (owners.next(), owners.next()) {
            (Some((node, _)), None) => Some(node.clone()),
            _ => None,
        }
    };
    (0..PARTS).map(owner).collect()
}

fn difference(parts: &BTreeMap<String, u32>) -> f64 {
    let most = parts.values().max().copied().unwrap_or_default();
    let least = parts.values().min().copied().unwrap_or_default();
    hundredths(most - least)
}

fn moved_part(before: &[String], after: &[String]) -> f64 {
    let moved = before.iter().zip(after).filter(|(was, is)| was != is);
    hundredths(moved.count() as u32)
}

fn hundredths(parts: u32) -> f64 {
    100.0 * f64::from(parts) / f64::from(PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_one_owner_each() {
        let mut holds = BTreeMap::from([("a".to_owned(), (0..60).collect::<Claims>())]);
        assert!(owners(&holds).is_none());
        holds.insert("b".to_owned(), (60..PARTS).collect());
        let before = owners(&holds).expect("all are held");
        assert_eq!((before[59].as_str(), before[60].as_str()), ("a", "b"));
        holds.insert("b".to_owned(), (59..PARTS).collect());
        assert!(owners(&holds).is_none());
        let mut after = before.clone();
        after[3] = "b".to_owned();
        assert_eq!(moved_part(&before, &after), 100.0 / f64::from(PARTS));
    }

    #[test]
    fn the_difference_is_between_most_and_least() {
        let parts = [("a", 43), ("b", 44), ("c", 42)];
        let parts = parts.map(|(node, count)| (node.to_owned(), count)).into();
        assert_eq!(difference(&parts), 200.0 / f64::from(PARTS));
    }
}
