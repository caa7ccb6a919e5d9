//! What a service knows about itself: routes, classes, states, conflicts, and what happened so far.

use std::any::TypeId;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::{Access, Class, Scope, Shares};
use crate::locks::Mode;

use super::live::{LoopsLive, StateLive, TimesExplained, in_words};
use super::plan::Declared;

/// What a service knows about itself. Printed, it is a table for people; as JSON it is the same for programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Explanation {
    /// The routes in the order in which they were added.
    pub routes: Vec<RouteExplained>,
    /// The states in the order in which they were shared.
    pub states: Vec<StateExplained>,
    /// For each route, whether its requests can run beside those of each route.
    pub conflicts: Vec<Vec<Conflict>>,
    /// What is wrong with the service, so that it cannot be built.
    pub mistakes: Vec<String>,
    /// What the event loops did, if they run.
    pub loops: Option<LoopsLive>,
    /// How many requests were answered with 503 so far.
    pub overloaded: u64,
}

/// A route.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RouteExplained {
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// The strongest class of its callbacks.
    pub class: Class,
    /// What its callbacks take.
    pub takes: Vec<Taken>,
    /// What happened so far, if it runs.
    pub live: Option<RouteLive>,
}

/// A state that a callback takes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Taken {
    /// Which callback of the route takes it, counted from 1.
    pub callback: usize,
    /// The parameter as it is written.
    pub parameter: String,
    /// The name of the state.
    pub state: String,
    /// Whether it is written.
    pub writes: bool,
    /// Whether it is written in a commit only.
    pub commits: bool,
    #[serde(skip)]
    id: TypeId,
    #[serde(skip)]
    scope: Scope,
}

/// What happened on a route so far.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RouteLive {
    /// How often its first function was called.
    pub calls: u64,
    /// How long calls take of late, in nanoseconds.
    pub mean_ns: u64,
    /// Whether they run on I/O threads.
    pub is_inline: bool,
    /// How long its first function takes, what it awaits included if it is an `async` one. Once calls have proven to be short, one
    /// in 64 is measured.
    pub taking: TimesExplained,
    /// How long computations without the lock take that its functions want.
    pub computing: TimesExplained,
    /// How many requests wait for computations.
    pub waiting_for_computations: usize,
}

/// A state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StateExplained {
    /// Its name.
    pub name: String,
    /// Why no request gets it, if that is so.
    pub quarantine: Option<String>,
    /// What happened to its lock so far, if it runs.
    pub live: Option<StateLive>,
}

/// Whether requests of two routes can run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Conflict {
    /// They can.
    None,
    /// They can if they name different keys.
    Key,
    /// They cannot while both hold their locks.
    Always,
}

impl Explanation {
    pub(super) fn of(routes: &[Declared], shares: &Shares, mistakes: Vec<String>) -> Self {
        let routes: Vec<RouteExplained> = routes.iter().map(explained).collect();
        let row = |one: &RouteExplained| routes.iter().map(|two| conflict(one, two)).collect();
        let states = shares.all().iter().map(|share| StateExplained {
            name: share.name.clone(),
            quarantine: None,
            live: None,
        });
        Self {
            conflicts: routes.iter().map(row).collect(),
            states: states.collect(),
            routes,
            mistakes,
            loops: None,
            overloaded: 0,
        }
    }
}

fn explained(route: &Declared) -> RouteExplained {
    let steps = route.steps.iter().enumerate();
    let takes = steps.flat_map(|(place, step)| taken(place + 1, step));
    RouteExplained {
        method: route.method.clone(),
        path: route.path.clone(),
        class: route.class(),
        takes: takes.collect(),
        live: None,
    }
}

fn taken(callback: usize, step: &Access) -> Vec<Taken> {
    let taken = step.uses().iter().map(|used| {
        let writes = step.strongest_mode(used) == Mode::Write;
        Taken {
            callback,
            parameter: used.parameter.clone(),
            state: used.state_name.clone(),
            writes,
            commits: writes && used.mode == Mode::Read,
            id: used.state,
            scope: used.scope,
        }
    });
    taken.collect()
}

fn conflict(one: &RouteExplained, two: &RouteExplained) -> Conflict {
    let mut worst = Conflict::None;
    for first in &one.takes {
        for second in two.takes.iter().filter(|second| second.id == first.id) {
            let lock_free = [first.scope, second.scope].contains(&Scope::Concurrent);
            if lock_free || !(first.writes || second.writes) {
                continue;
            }
            match (first.scope, second.scope) {
                (Scope::Key, Scope::Key) if worst == Conflict::None => worst = Conflict::Key,
                (Scope::Key, Scope::Key) => {}
                _ => worst = Conflict::Always,
            }
        }
    }
    worst
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.mistakes {
            writeln!(formatter, "wrong: {mistake}")?;
        }
        self.write_routes(formatter)?;
        self.write_conflicts(formatter)?;
        self.write_states(formatter)?;
        match &self.loops {
            Some(loops) => writeln!(
                formatter,
                "\nevent loops: {loops}; answered with 503: {}",
                self.overloaded
            ),
            None => Ok(()),
        }
    }
}

impl Explanation {
    fn write_routes(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |of: fn(&RouteExplained) -> usize| self.routes.iter().map(of).max().unwrap_or(0);
        let (methods, paths) = (
            width(|route| route.method.len()),
            width(|route| route.path.len()),
        );
        writeln!(formatter, "routes")?;
        for (number, route) in self.routes.iter().enumerate() {
            let RouteExplained {
                method,
                path,
                class,
                ..
            } = route;
            write!(
                formatter,
                "{:>4}  {method:methods$}  {path:paths$}  {class:9}",
                number + 1
            )?;
            let takes: Vec<String> = route.takes.iter().map(Taken::to_string).collect();
            write!(formatter, "  {}", takes.join(", "))?;
            if let Some(live) = &route.live {
                let place = if live.is_inline {
                    "I/O threads"
                } else {
                    "event loops"
                };
                write!(formatter, "  [{} calls, on {place}", live.calls)?;
                if live.taking.count > 0 {
                    let of_late = in_words(live.mean_ns);
                    write!(formatter, ", of late {of_late}, {}", live.taking)?;
                }
                if live.computing.count > 0 {
                    write!(formatter, "; computing {}", live.computing)?;
                }
                write!(formatter, "]")?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }

    fn write_conflicts(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "\nconflicts  (x: one after the other, k: only if the keys are the same, ·: at the same time)"
        )?;
        write!(formatter, "    ")?;
        (1..=self.routes.len()).try_for_each(|number| write!(formatter, "{number:>4}"))?;
        writeln!(formatter)?;
        for (number, row) in self.conflicts.iter().enumerate() {
            write!(formatter, "{:>4}", number + 1)?;
            for conflict in row {
                let letter = match conflict {
                    Conflict::None => '·',
                    Conflict::Key => 'k',
                    Conflict::Always => 'x',
                };
                write!(formatter, "{letter:>4}")?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }

    fn write_states(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "\nstates")?;
        for state in &self.states {
            write!(formatter, "      {}", state.name)?;
            if let Some(live) = &state.live {
                write!(formatter, "  [{live}]")?;
            }
            if let Some(reason) = &state.quarantine {
                write!(formatter, "  in quarantine: {reason}")?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.parameter)?;
        match self.commits {
            true => formatter.write_str(" and commits"),
            false => Ok(()),
        }
    }
}
