//! What the parameters of one callback declare, and whether that fits together.

use std::any::TypeId;

use crate::locks::Mode;

use super::class::Class;
use super::name::short_name;

/// How much of a state is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All of it.
    Whole,
    /// One key of it, which each request names.
    Key,
    /// All of it, without a lock: it can be used by many at once.
    Concurrent,
}

/// One parameter that takes state.
#[derive(Clone, Debug)]
pub struct Use {
    /// Which parameter of the function it is, counted from 1.
    pub position: usize,
    /// The type of the parameter, as it is written.
    pub parameter: String,
    /// The type of the state.
    pub state: TypeId,
    /// Its name.
    pub state_name: String,
    /// How it is taken.
    pub mode: Mode,
    /// How much of it.
    pub scope: Scope,
}

/// What the parameters and the result of one callback declare.
#[derive(Clone, Debug, Default)]
pub struct Access {
    position: usize,
    uses: Vec<Use>,
    reads_body: bool,
    commits: bool,
    waits: bool,
    carried: Option<(TypeId, String)>,
    carries: Option<(TypeId, String)>,
}

impl Access {
    /// What comes next is declared by the next parameter.
    pub(crate) fn next_parameter(&mut self) {
        self.position += 1;
    }

    /// This parameter takes the state `S`.
    pub(crate) fn takes<S: 'static>(&mut self, parameter: String, mode: Mode, scope: Scope) {
        self.uses.push(Use {
            position: self.position,
            parameter,
            state: TypeId::of::<S>(),
            state_name: short_name::<S>(),
            mode,
            scope,
        });
    }

    /// This parameter is made of the body, so that has to be read first.
    pub(crate) fn reads_body(&mut self) {
        self.reads_body = true;
    }

    /// The result may write, in a commit, what was read.
    pub(crate) fn commits(&mut self) {
        self.commits = true;
    }

    /// This parameter is what the callback before gave.
    pub(crate) fn is_carried<V: 'static>(&mut self) {
        self.carried = Some((TypeId::of::<V>(), short_name::<V>()));
    }

    /// The result is carried to the next callback.
    pub(crate) fn carries<V: 'static>(&mut self) {
        self.carries = Some((TypeId::of::<V>(), short_name::<V>()));
    }

    /// The result is there later: the function is an `async` one.
    pub(crate) fn waits(&mut self) {
        self.waits = true;
    }

    pub(crate) fn has_waits(&self) -> bool {
        self.waits
    }

    /// All state that is taken.
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// Whether what is read may be written in a commit.
    pub fn has_commit(&self) -> bool {
        self.commits
    }

    /// Whether the body is needed.
    pub fn needs_body(&self) -> bool {
        self.reads_body
    }

    pub(crate) fn carried_in(&self) -> Option<&(TypeId, String)> {
        self.carried.as_ref()
    }

    pub(crate) fn carried_out(&self) -> Option<&(TypeId, String)> {
        self.carries.as_ref()
    }

    /// How a use ends up: what is read as a whole is written if there is a commit.
    pub fn strongest_mode(&self, used: &Use) -> Mode {
        match used.scope {
            Scope::Whole if self.commits => Mode::Write,
            _ => used.mode,
        }
    }

    /// The class that follows.
    pub fn class(&self) -> Class {
        let locked = self
            .uses
            .iter()
            .filter(|used| used.scope != Scope::Concurrent);
        locked
            .map(|used| match self.strongest_mode(used) {
                Mode::Read => Class::Shared,
                Mode::Write => Class::Exclusive,
            })
            .max()
            .unwrap_or(Class::Stateless)
    }

    /// What is wrong with the parameters taken together.
    pub(crate) fn check(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for (place, second) in self.uses.iter().enumerate() {
            let same = |first: &&Use| first.state == second.state;
            for first in self.uses[..place].iter().filter(same) {
                wrong.extend(conflict(first, second));
            }
        }
        wrong
    }
}

fn conflict(first: &Use, second: &Use) -> Option<Wrong> {
    let both_read = first.mode == Mode::Read && second.mode == Mode::Read;
    let fits = match (first.scope, second.scope) {
        (Scope::Key, Scope::Key) => true,
        (Scope::Whole | Scope::Concurrent, Scope::Whole | Scope::Concurrent) => both_read,
        _ => false,
    };
    (!fits).then(|| Wrong::Conflict {
        first: (first.position, first.parameter.clone()),
        second: (second.position, second.parameter.clone()),
        state: first.state_name.clone(),
    })
}

/// What is wrong with how a handler takes state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Two parameters cannot be had at the same time.
    #[error(
        "parameter {} ({}) and parameter {} ({}) take the state {state} in conflict: take it once, with the stronger of both",
        first.0, first.1, second.0, second.1
    )]
    Conflict {
        /// Position and type of one.
        first: (usize, String),
        /// Position and type of the other.
        second: (usize, String),
        /// The state.
        state: String,
    },
    /// Nobody shared the state.
    #[error(
        "parameter {position} ({parameter}) takes the state {state}, which was never shared: say `.share({state}::default())`, or with another value of it"
    )]
    NotShared {
        /// The position of the parameter, counted from 1.
        position: usize,
        /// Its type.
        parameter: String,
        /// The state.
        state: String,
    },
    /// The state is used without a lock somewhere, so nobody may have it alone.
    #[error(
        "parameter {position} ({parameter}) writes the state {state}, which {other} uses without a lock through Shared: take it through Shared everywhere, or nowhere"
    )]
    NotAlone {
        /// The position of the parameter, counted from 1.
        position: usize,
        /// Its type.
        parameter: String,
        /// The state.
        state: String,
        /// The route that shares it.
        other: String,
    },
    /// A state with this policy has to be written as a whole.
    #[error(
        "parameter {position} ({parameter}) writes keys of the state {state}, which is to be rolled back after a panic: snapshots are taken of whole states only, so use OnPanic::Quarantine or OnPanic::reset"
    )]
    NoSnapshotOfKeys {
        /// The position of the parameter, counted from 1.
        position: usize,
        /// Its type.
        parameter: String,
        /// The state.
        state: String,
    },
    /// A callback takes what the one before does not give.
    #[error("a callback takes Carried<{wanted}>, but {given}")]
    Carried {
        /// The type that is taken.
        wanted: String,
        /// What is given instead.
        given: String,
    },
    /// A callback gives what nobody takes.
    #[error(
        "a callback gives Tick<{given}>, but nothing comes after it: say `next_tick(first, second)`, where the second takes Carried<{given}>"
    )]
    NotCarried {
        /// The type that is given.
        given: String,
    },
    /// A callback that is not the last answers by itself.
    #[error(
        "the first of two callbacks gives an answer, so the second would never be called: let it give a Tick"
    )]
    NoTick,
}
