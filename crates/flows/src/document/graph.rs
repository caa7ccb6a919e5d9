//! The graph of a flow: edges, what is in a cycle, and what lies behind what.

use std::collections::{BTreeMap, BTreeSet};

use super::model::Document;

/// An edge between two stages of a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The stage that it comes from.
    pub from: String,
    /// The output there.
    pub output: String,
    /// The stage that it leads to.
    pub to: String,
}

/// Stages of which each can reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The stages, by name.
    pub stages: BTreeSet<String>,
    /// The edges among them.
    pub edges: Vec<Edge>,
}

impl Document {
    /// The edges within the flow, in order. Those that lead elsewhere, or to a stage that is not there, are none.
    pub fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        for (from, stage) in &self.stages {
            for (output, places) in &stage.outputs {
                let stages = places
                    .0
                    .iter()
                    .filter_map(|place| place.stage_of(&self.flow));
                for to in stages.filter(|to| self.stages.contains_key(*to)) {
                    edges.push(Edge {
                        from: from.clone(),
                        output: output.clone(),
                        to: to.to_owned(),
                    });
                }
            }
        }
        edges
    }

    /// The cycles: parts of the flow in which an event can come back to where it was.
    pub fn cycles(&self) -> Vec<Cycle> {
        let edges = self.edges();
        let mut cycle_of = BTreeMap::new();
        let mut cycles: Vec<Cycle> = Vec::new();
        for stages in self.downstream_first() {
            let leads_to_itself = || {
                edges
                    .iter()
                    .any(|edge| edge.from == edge.to && edge.from == stages[0])
            };
            if stages.len() == 1 && !leads_to_itself() {
                continue;
            }
            for stage in &stages {
                cycle_of.insert(stage.clone(), cycles.len());
            }
            cycles.push(Cycle {
                stages: stages.into_iter().collect(),
                edges: Vec::new(),
            });
        }
        for edge in edges {
            let (from, to) = (cycle_of.get(&edge.from), cycle_of.get(&edge.to));
            if let (Some(from), Some(to)) = (from, to)
                && from == to
            {
                cycles[*from].edges.push(edge);
            }
        }
        cycles
    }

    /// All stages in groups: each group is a cycle or one stage, and leads only to groups before it.
    pub(super) fn downstream_first(&self) -> Vec<Vec<String>> {
        let names: BTreeSet<&str> = self.stages.keys().map(String::as_str).collect();
        downstream_first(&names, &self.edges())
    }
}

/// Groups these stages by the edges among them: each group is a cycle or one stage, and leads only to groups before it.
pub(super) fn downstream_first(names: &BTreeSet<&str>, edges: &[Edge]) -> Vec<Vec<String>> {
    let names: Vec<&str> = names.iter().copied().collect();
    let numbers: BTreeMap<&str, usize> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (*name, i))
        .collect();
    let mut leads_to = vec![Vec::new(); names.len()];
    for edge in edges {
        let ends = (
            numbers.get(edge.from.as_str()),
            numbers.get(edge.to.as_str()),
        );
        if let (Some(from), Some(to)) = ends {
            leads_to[*from].push(*to);
        }
    }
    let groups = Walk::over(&leads_to);
    let name = |number: usize| names[number].to_owned();
    let named = |mut group: Vec<usize>| {
        group.sort_unstable();
        group.into_iter().map(name).collect()
    };
    groups.into_iter().map(named).collect()
}

/// Tarjan's way to strongly connected components, with a stack of its own: a flow may be a chain of thousands.
struct Walk<'a> {
    leads_to: &'a [Vec<usize>],
    /// When each was first seen, from one; zero before.
    seen_at: Vec<usize>,
    /// The earliest that it reaches.
    reaches: Vec<usize>,
    is_open: Vec<bool>,
    open: Vec<usize>,
    clock: usize,
    groups: Vec<Vec<usize>>,
}

impl<'a> Walk<'a> {
    fn over(leads_to: &'a [Vec<usize>]) -> Vec<Vec<usize>> {
        let count = leads_to.len();
        let mut walk = Self {
            leads_to,
            seen_at: vec![0; count],
            reaches: vec![0; count],
            is_open: vec![false; count],
            open: Vec::new(),
            clock: 0,
            groups: Vec::new(),
        };
        for start in 0..count {
            if walk.seen_at[start] == 0 {
                walk.from(start);
            }
        }
        walk.groups
    }

    fn from(&mut self, start: usize) {
        self.enter(start);
        // Each with how many of its edges were followed.
        let mut way = vec![(start, 0)];
        while let Some((at, followed)) = way.last_mut() {
            let (at, next) = (*at, self.leads_to[*at].get(*followed).copied());
            *followed += 1;
            match next {
                Some(next) if self.seen_at[next] == 0 => {
                    self.enter(next);
                    way.push((next, 0));
                }
                Some(next) if self.is_open[next] => {
                    self.reaches[at] = self.reaches[at].min(self.seen_at[next]);
                }
                Some(_) => {}
                None => {
                    way.pop();
                    if let Some((before, _)) = way.last() {
                        self.reaches[*before] = self.reaches[*before].min(self.reaches[at]);
                    }
                    self.leave(at);
                }
            }
        }
    }

    fn enter(&mut self, at: usize) {
        self.clock += 1;
        self.seen_at[at] = self.clock;
        self.reaches[at] = self.clock;
        self.is_open[at] = true;
        self.open.push(at);
    }

    /// Closes the group that begins here, if one does.
    fn leave(&mut self, at: usize) {
        if self.reaches[at] != self.seen_at[at] {
            return;
        }
        let mut group = Vec::new();
        while let Some(last) = self.open.pop() {
            self.is_open[last] = false;
            group.push(last);
            if last == at {
                break;
            }
        }
        self.groups.push(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(edges: &[(&str, &str)]) -> Document {
        let mut text = "flow = \"f\"\n".to_owned();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (from, to) in edges {
            names.extend([*from, *to]);
        }
        for name in names {
            let to: Vec<_> = edges
                .iter()
                .filter(|edge| edge.0 == name)
                .map(|edge| edge.1)
                .collect();
            text += &format!("[stages.{name}]\nplugin = \"p\"\nto = {to:?}\n");
        }
        Document::parse(&text).unwrap().document
    }

    #[test]
    fn cycles_are_found_with_their_edges() {
        assert!(
            document(&[("a", "b"), ("b", "c"), ("a", "c")])
                .cycles()
                .is_empty()
        );
        let crawler = document(&[
            ("seeds", "fetch"),
            ("fetch", "links"),
            ("links", "fetch"),
            ("fetch", "store"),
        ]);
        let cycles = crawler.cycles();
        assert_eq!(cycles.len(), 1);
        assert!(cycles[0].stages.iter().eq(["fetch", "links"]));
        assert_eq!(cycles[0].edges.len(), 2);
        let own = document(&[("a", "a"), ("a", "b")]).cycles();
        assert_eq!((own.len(), own[0].edges.len()), (1, 1));
    }

    #[test]
    fn what_is_behind_comes_first() {
        let order = document(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]).downstream_first();
        assert_eq!(order, [vec!["d"], vec!["b", "c"], vec!["a"]]);
    }

    #[test]
    fn a_long_chain_takes_no_deep_stack() {
        let names: Vec<String> = (0..10_000).map(|number| format!("s{number}")).collect();
        let edges: Vec<(&str, &str)> = names
            .windows(2)
            .map(|pair| (pair[0].as_str(), pair[1].as_str()))
            .collect();
        let mut text = "flow = \"f\"\n".to_owned();
        for (from, to) in &edges {
            text += &format!("[stages.{from}]\nplugin = \"p\"\nto = {to:?}\n");
        }
        text += "[stages.s9999]\nplugin = \"p\"\nto = \"s0\"\n";
        let chain = Document::parse(&text).unwrap().document;
        assert_eq!(chain.cycles()[0].edges.len(), 10_000);
    }
}
