//! The whole file system in memory: directories, files, and what of them was synced.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use fuser::Errno;

use super::chance::Chance;
use super::content::Content;
use super::{Faults, Loss, Operation};

pub(super) const ROOT: u64 = 1;

type Entries = BTreeMap<OsString, u64>;
/// A name in a directory.
type Place = (u64, OsString);

#[derive(Clone)]
pub(super) enum Kind {
    File(Content),
    Directory(Entries),
}

#[derive(Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) mode: u16,
}

/// One change of names that happens wholly or not at all, as in a journalling file system.
#[derive(Clone)]
struct NameChange {
    /// Each name with what it stood for before; the last one restored is the first one changed.
    before: Vec<(Place, Option<u64>)>,
}

impl NameChange {
    fn touches(&self, place: &Place) -> bool {
        self.before.iter().any(|(changed, _)| changed == place)
    }

    fn shares_name_with(&self, other: &NameChange) -> bool {
        self.before.iter().any(|(place, _)| other.touches(place))
    }
}

#[derive(Clone)]
pub(super) struct Model {
    nodes: BTreeMap<u64, Node>,
    next_node: u64,
    /// Changes of names that no directory sync has made permanent, oldest first.
    unsynced_names: Vec<NameChange>,
    open_files: BTreeMap<u64, u64>,
    operations: BTreeMap<Operation, u64>,
    pub(super) faults: Faults,
    pub(super) power_cut: bool,
}

impl Model {
    pub(super) fn new() -> Self {
        let root = Node {
            kind: Kind::Directory(Entries::new()),
            mode: 0o755,
        };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next_node: ROOT + 1,
            unsynced_names: Vec::new(),
            open_files: BTreeMap::new(),
            operations: BTreeMap::new(),
            faults: Faults::default(),
            power_cut: false,
        }
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations.values().sum()
    }

    pub(super) fn operation_counts(&self) -> BTreeMap<Operation, u64> {
        self.operations.clone()
    }

    /// Refuses everything once the power is gone.
    pub(super) fn check_power(&self) -> Result<(), Errno> {
        if self.power_cut {
            Err(Errno::EIO)
        } else {
            Ok(())
        }
    }

    /// Counts one operation; true if the power fails during it.
    pub(super) fn count(&mut self, operation: Operation) -> Result<bool, Errno> {
        self.check_power()?;
        *self.operations.entry(operation).or_default() += 1;
        self.power_cut = self.faults.cut_power_at == Some(self.operations());
        Ok(self.power_cut)
    }

    pub(super) fn node(&self, node: u64) -> Result<&Node, Errno> {
        self.check_power()?;
        self.nodes.get(&node).ok_or(Errno::ENOENT)
    }

    pub(super) fn set_mode(&mut self, node: u64, mode: u16) -> Result<(), Errno> {
        self.check_power()?;
        self.nodes.get_mut(&node).ok_or(Errno::ENOENT)?.mode = mode;
        Ok(())
    }

    pub(super) fn entries(&self, directory: u64) -> Result<&Entries, Errno> {
        match &self.node(directory)?.kind {
            Kind::Directory(entries) => Ok(entries),
            Kind::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn lookup(&self, directory: u64, name: &OsStr) -> Result<u64, Errno> {
        let found = self.entries(directory)?.get(name);
        found.copied().ok_or(Errno::ENOENT)
    }

    pub(super) fn content(&self, node: u64) -> Result<&Content, Errno> {
        match &self.node(node)?.kind {
            Kind::File(content) => Ok(content),
            Kind::Directory(_) => Err(Errno::EISDIR),
        }
    }

    pub(super) fn content_mut(&mut self, node: u64) -> Result<&mut Content, Errno> {
        match &mut self.nodes.get_mut(&node).ok_or(Errno::ENOENT)?.kind {
            Kind::File(content) => Ok(content),
            Kind::Directory(_) => Err(Errno::EISDIR),
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.nodes
            .values()
            .map(|node| match &node.kind {
                Kind::File(content) => content.used_bytes(),
                Kind::Directory(_) => 0,
            })
            .sum()
    }

    /// Lets `change` work on a file and takes it back if the file system is over its capacity.
    pub(super) fn grow(
        &mut self,
        node: u64,
        change: impl FnOnce(&mut Content),
    ) -> Result<(), Errno> {
        let Some(capacity) = self.faults.capacity_bytes else {
            change(self.content_mut(node)?);
            return Ok(());
        };
        let before = self.content_mut(node)?.clone();
        change(self.content_mut(node)?);
        if self.used_bytes() > capacity && self.content(node)?.used_bytes() > before.used_bytes() {
            *self.content_mut(node)? = before;
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, place: (u64, &OsStr), node: Node) -> Result<u64, Errno> {
        if self.entries(place.0)?.contains_key(place.1) {
            return Err(Errno::EEXIST);
        }
        let number = self.next_node;
        self.next_node += 1;
        self.nodes.insert(number, node);
        self.change_names(vec![(owned(place), Some(number))]);
        Ok(number)
    }

    pub(super) fn remove(&mut self, place: (u64, &OsStr)) -> Result<(), Errno> {
        let node = self.lookup(place.0, place.1)?;
        self.check_empty(node)?;
        self.change_names(vec![(owned(place), None)]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Result<(), Errno> {
        let node = self.lookup(from.0, from.1)?;
        if let Ok(replaced) = self.lookup(to.0, to.1) {
            self.check_empty(replaced)?;
        }
        self.entries(to.0)?;
        if owned(from) != owned(to) {
            self.change_names(vec![(owned(to), Some(node)), (owned(from), None)]);
        }
        Ok(())
    }

    fn check_empty(&self, node: u64) -> Result<(), Errno> {
        match &self.node(node)?.kind {
            Kind::Directory(entries) if !entries.is_empty() => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    fn change_names(&mut self, changes: Vec<(Place, Option<u64>)>) {
        let mut before = Vec::new();
        for (place, node) in changes {
            let old = self.set_name(&place, node);
            before.push((place, old));
        }
        self.unsynced_names.push(NameChange { before });
    }

    fn set_name(&mut self, place: &Place, node: Option<u64>) -> Option<u64> {
        let Some(Kind::Directory(entries)) = self.nodes.get_mut(&place.0).map(|n| &mut n.kind)
        else {
            return None;
        };
        match node {
            Some(node) => entries.insert(place.1.clone(), node),
            None => entries.remove(&place.1),
        }
    }

    pub(super) fn sync_directory(&mut self, directory: u64) -> Result<(), Errno> {
        self.entries(directory)?;
        let mut permanent = BTreeSet::new();
        // Newest first: a change becomes permanent together with the older ones it builds on.
        for index in (0..self.unsynced_names.len()).rev() {
            let change = &self.unsynced_names[index];
            let in_directory = change.before.iter().any(|((dir, _), _)| *dir == directory);
            let needed = permanent
                .iter()
                .any(|later: &usize| self.unsynced_names[*later].shares_name_with(change));
            if in_directory || needed {
                permanent.insert(index);
            }
        }
        let mut index = 0;
        self.unsynced_names.retain(|_| {
            index += 1;
            !permanent.contains(&(index - 1))
        });
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn opened(&mut self, node: u64) {
        *self.open_files.entry(node).or_default() += 1;
    }

    pub(super) fn released(&mut self, node: u64) {
        if let Some(count) = self.open_files.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.open_files.remove(&node);
            }
        }
    }

    /// The state after loss of power, chosen by `chance` among those that the syncs allow.
    pub(super) fn crash(&mut self, mut chance: Chance) -> Loss {
        let names = self.drop_names(&mut chance);
        let mut sectors = 0;
        for node in self.nodes.values_mut() {
            if let Kind::File(content) = &mut node.kind {
                sectors += content.crash(&mut chance);
            }
        }
        self.open_files.clear();
        self.forget_unreachable();
        self.power_cut = false;
        self.faults = Faults {
            capacity_bytes: self.faults.capacity_bytes,
            ..Faults::default()
        };
        self.operations.clear();
        Loss { sectors, names }
    }

    /// Takes back unsynced changes of names. Changes that share a name depend on each other and
    /// survive up to a chosen point; all others are chosen one by one.
    fn drop_names(&mut self, chance: &mut Chance) -> u64 {
        let changes = std::mem::take(&mut self.unsynced_names);
        let mut dropped: Vec<NameChange> = Vec::new();
        for change in changes {
            let builds_on_dropped = dropped.iter().any(|d| d.shares_name_with(&change));
            if builds_on_dropped || chance.loses() {
                dropped.push(change);
            }
        }
        for change in dropped.iter().rev() {
            for (place, node) in change.before.iter().rev() {
                self.set_name(place, *node);
            }
        }
        dropped.len() as u64
    }

    fn forget_unreachable(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut waiting = vec![ROOT];
        waiting.extend(self.open_files.keys());
        let before = self.unsynced_names.iter().flat_map(|c| &c.before);
        waiting.extend(before.filter_map(|(_, node)| *node));
        while let Some(number) = waiting.pop() {
            reached.insert(number);
            if let Some(Kind::Directory(entries)) = self.nodes.get(&number).map(|n| &n.kind) {
                waiting.extend(entries.values().filter(|n| !reached.contains(n)));
            }
        }
        self.nodes.retain(|number, _| reached.contains(number));
    }

    /// Every file with its size, for messages about failures.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, u64> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![(PathBuf::new(), ROOT)];
        while let Some((path, number)) = waiting.pop() {
            match self.nodes.get(&number).map(|node| &node.kind) {
                Some(Kind::File(content)) => {
                    found.insert(path, content.size());
                }
                Some(Kind::Directory(entries)) => {
                    waiting.extend(entries.iter().map(|(name, node)| (path.join(name), *node)));
                }
                None => {}
            }
        }
        found
    }
}

fn owned((directory, name): (u64, &OsStr)) -> Place {
    (directory, name.to_owned())
}
