//! Which stages lie on a cycle, as their outputs lead.
//!
//! Stages of one cycle must not wait for each other's mailboxes: each could wait for the next, and nobody would go on.

use std::collections::HashMap;
use std::hash::Hash;

/// For each node that lies on a cycle, the number of its cycle: nodes that reach each other have the same one. The edges are
/// given by the nodes that they lead to.
pub(crate) fn cycles<N: Copy + Eq + Hash>(edges: &HashMap<N, Vec<N>>) -> HashMap<N, u64> {
    let mut search = Search {
        edges,
        visits: HashMap::new(),
        open: Vec::new(),
        found: HashMap::new(),
        next_cycle: 1,
    };
    for node in edges.keys() {
        if !search.visits.contains_key(node) {
            search.visit_from(*node);
        }
    }
    search.found
}

/// Tarjan's search for strongly connected components, with a stack of its own instead of recursion.
struct Search<'a, N> {
    edges: &'a HashMap<N, Vec<N>>,
    visits: HashMap<N, Visit>,
    /// Nodes whose component is not complete.
    open: Vec<N>,
    found: HashMap<N, u64>,
    next_cycle: u64,
}

struct Visit {
    number: usize,
    /// The earliest node that can be reached and is still open.
    lowest: usize,
    is_open: bool,
}

impl<N: Copy + Eq + Hash> Search<'_, N> {
    fn visit_from(&mut self, start: N) {
        let mut path: Vec<(N, usize)> = vec![(start, 0)];
        self.open_node(start);
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            let to = self.edges.get(&node).and_then(|to| to.get(*next)).copied();
            *next += 1;
            match to {
                Some(to) if !self.visits.contains_key(&to) => {
                    self.open_node(to);
                    path.push((to, 0));
                }
                Some(to) => {
                    let seen = &self.visits[&to];
                    let reached = if seen.is_open {
                        seen.number
                    } else {
                        usize::MAX
                    };
                    self.lower(node, reached);
                }
                None => {
                    path.pop();
                    let lowest = self.visits[&node].lowest;
                    if let Some((parent, _)) = path.last() {
                        self.lower(*parent, lowest);
                    }
                    if lowest == self.visits[&node].number {
                        self.close(node);
                    }
                }
            }
        }
    }

    fn open_node(&mut self, node: N) {
        let number = self.visits.len();
        let visit = Visit {
            number,
            lowest: number,
            is_open: true,
        };
        self.visits.insert(node, visit);
        self.open.push(node);
    }

    fn lower(&mut self, node: N, reached: usize) {
        if let Some(visit) = self.visits.get_mut(&node) {
            visit.lowest = visit.lowest.min(reached);
        }
    }

    /// All open nodes from this one on are one component.
    fn close(&mut self, first: N) {
        let at = self.open.iter().rposition(|node| *node == first);
        let members = self.open.split_off(at.unwrap_or(0));
        for member in &members {
            if let Some(visit) = self.visits.get_mut(member) {
                visit.is_open = false;
            }
        }
        let leads_to_itself = |node: &N| self.edges.get(node).is_some_and(|to| to.contains(node));
        if members.len() > 1 || members.iter().any(leads_to_itself) {
            let cycle = self.next_cycle;
            self.next_cycle += 1;
            self.found
                .extend(members.into_iter().map(|member| (member, cycle)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(pairs: &[(u8, u8)]) -> HashMap<u8, Vec<u8>> {
        let mut edges: HashMap<u8, Vec<u8>> = HashMap::new();
        for (from, to) in pairs {
            edges.entry(*from).or_default().push(*to);
            edges.entry(*to).or_default();
        }
        edges
    }

    #[test]
    fn only_nodes_that_come_back_to_themselves_are_on_a_cycle() {
        let found = cycles(&graph(&[(1, 2), (2, 3), (3, 2), (3, 4), (5, 5), (6, 1)]));
        assert_eq!(found.len(), 3);
        assert_eq!(found[&2], found[&3]);
        assert_ne!(found[&2], found[&5]);
    }

    #[test]
    fn a_long_chain_needs_no_deep_stack() {
        let edges: HashMap<u32, Vec<u32>> = (0..200_000).map(|n| (n, vec![n + 1])).collect();
        assert!(cycles(&edges).is_empty());
    }

    proptest! {
        #[test]
        fn two_nodes_share_a_cycle_if_they_reach_each_other(
            pairs in proptest::collection::vec((0_u8..12, 0_u8..12), 0..40)
        ) {
            let edges = graph(&pairs);
            let found = cycles(&edges);
            let mut reaches = [[false; 12]; 12];
            for (from, to) in &pairs {
                reaches[*from as usize][*to as usize] = true;
            }
            for via in 0..12 {
                for from in 0..12 {
                    for to in 0..12 {
                        reaches[from][to] |= reaches[from][via] && reaches[via][to];
                    }
                }
            }
            for a in 0..12_u8 {
                for b in 0..12_u8 {
                    let together = reaches[a as usize][b as usize] && reaches[b as usize][a as usize];
                    let same = found.contains_key(&a) && found.get(&a) == found.get(&b);
                    prop_assert_eq!(same, together);
                }
            }
        }
    }
}
