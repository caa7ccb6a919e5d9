//! Who should own what, computed alike by every node.

use std::cell::RefCell;

use runtime::Deal;

/// A node that can own shares. One that is to have twice as many is there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place<'a> {
    /// The node.
    pub node: &'a str,
    /// Numbers the places of one node.
    pub number: u32,
}

/// The place of each share of `what`: rendezvous hashing with equal shares, so that little moves
/// when a node comes or goes. Nothing is owned where there are no places.
pub fn places<'a>(what: &str, shares: u32, places: &[Place<'a>]) -> Vec<&'a str> {
    if places.is_empty() {
        return Vec::new();
    }
    // The order in which nodes became known must not matter.
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let text = RefCell::new(Vec::new());
    let score = |share: u32, place: u32| {
        score(&mut text.borrow_mut(), what, share, &sorted[place as usize])
    };
    let owners = match sorted.len() as u32 {
        // More places than shares: each share has its best place.
        count if count > shares => best(shares, count, score),
        count => Deal::new(shares, count).finish(score),
    };
    let node = |owner: u32| sorted[owner as usize].node;
    owners.into_iter().map(node).collect()
}

/// The best place of each share, no place twice.
fn best(shares: u32, places: u32, score: impl Fn(u32, u32) -> u64) -> Vec<u32> {
    let mut taken = vec![false; places as usize];
    let mut best = Vec::with_capacity(shares as usize);
    for share in 0..shares {
        let free = (0..places).filter(|place| !taken[*place as usize]);
        let Some(place) = free.max_by_key(|place| score(share, *place)) else {
            break;
        };
        taken[place as usize] = true;
        best.push(place);
    }
    best
}

/// How well a share and a place go together. It never changes: nodes of different versions must
/// agree.
fn score(text: &mut Vec<u8>, what: &str, share: u32, place: &Place<'_>) -> u64 {
    text.clear();
    text.extend_from_slice(what.as_bytes());
    text.push(0);
    text.extend_from_slice(place.node.as_bytes());
    text.push(0);
    text.extend_from_slice(&place.number.to_le_bytes());
    text.extend_from_slice(&share.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use runtime::BUCKETS;

    use super::*;

    const NODES: [&str; 5] = ["ada", "bob", "cy", "dot", "eve"];

    fn nodes(count: usize) -> Vec<Place<'static>> {
        let place = |node: &&'static str| Place { node, number: 0 };
        NODES[..count].iter().map(place).collect()
    }

    fn counts<'a>(places: &[&'a str]) -> BTreeMap<&'a str, u32> {
        let mut counts = BTreeMap::new();
        for node in places {
            *counts.entry(*node).or_default() += 1;
        }
        counts
    }

    fn moved(before: &[&str], after: &[&str]) -> usize {
        before.iter().zip(after).filter(|(a, b)| a != b).count()
    }

    #[test]
    fn three_nodes_have_the_same_share_within_six_in_a_hundred() {
        for stage in 0..100 {
            let places = places(&format!("flow/{stage}"), BUCKETS, &nodes(3));
            let counts = counts(&places);
            let (least, most) = (
                counts.values().min().unwrap(),
                counts.values().max().unwrap(),
            );
            let apart = f64::from(most - least) / f64::from(BUCKETS);
            assert!(counts.len() == 3 && apart <= 0.06, "{counts:?}");
        }
    }

    #[test]
    fn a_third_node_moves_two_fifths_at_most() {
        let mut most = 0;
        for stage in 0..100 {
            let what = format!("flow/{stage}");
            let before = places(&what, BUCKETS, &nodes(2));
            let after = places(&what, BUCKETS, &nodes(3));
            most = most.max(moved(&before, &after));
        }
        assert!(most as f64 <= 0.4 * f64::from(BUCKETS), "{most} moved");
        // The control: by number, nearly all would.
        let by_number = |nodes: u32| (0..BUCKETS).map(move |share| share % nodes);
        let all = by_number(2).zip(by_number(3)).filter(|(a, b)| a != b);
        assert!(all.count() as f64 > 0.6 * f64::from(BUCKETS));
    }

    #[test]
    fn who_is_named_twice_gets_twice_as_much() {
        let named = [("ada", 0), ("ada", 1), ("bob", 0)];
        let named = named.map(|(node, number)| Place { node, number });
        let counts = counts(&places("flow/stage", 12, &named));
        assert_eq!(counts["ada"], 8);
        assert_eq!(counts["bob"], 4);
    }

    #[test]
    fn few_shares_go_to_different_places() {
        let counts = counts(&places("flow/stage", 3, &nodes(5)));
        assert_eq!(counts.len(), 3);
        assert!(places("flow/stage", 3, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn the_order_of_nodes_does_not_matter(
            count in 1_usize..=5,
            shares in 1_u32..200,
            seed in any::<u64>(),
        ) {
            let mut shuffled = nodes(count);
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            let straight = places("flow/stage", shares, &nodes(count));
            prop_assert_eq!(straight, places("flow/stage", shares, &shuffled));
        }
    }
}
