//! Runs of services, kept for all cases that look at the same ones.

use std::collections::HashMap;

use super::answers;
use super::calibration::{self, HEAVY_NUMBER};
use super::load::ServiceLoadError;
use super::outcome::Outcome;
use super::workloads::{HEAVY, Stateful, Workload};
use crate::peers::PeerError;
use crate::peers::services::{Program, Service, node_rounds};

/// What can go wrong with a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// It could not be started.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The load failed.
    #[error(transparent)]
    Load(#[from] ServiceLoadError),
    /// It does not do what all do.
    #[error("{program}: {reason}")]
    Different {
        /// Which.
        program: &'static str,
        /// What it does instead.
        reason: String,
    },
}

/// The result of asking services.
pub type Result<T> = std::result::Result<T, ServiceError>;

/// Who is asked the same, one after the other, before the first is asked again.
pub fn asked(workload: Workload) -> &'static [Program] {
    match workload {
        Workload::Fibonacci(_) | Workload::Plain => &[
            Program::Hivewire,
            Program::Axum,
            Program::Actix,
            Program::Node,
            Program::NodeCluster,
        ],
        Workload::Stateless => &[
            Program::Hivewire,
            Program::HivewireOneLoop,
            Program::Axum,
            Program::Actix,
            Program::Node,
            Program::NodeCluster,
        ],
        Workload::StatelessAt(_) => &[
            Program::Hivewire,
            Program::HivewireOneLoop,
            Program::Axum,
            Program::Node,
        ],
        Workload::Stateful(..) => &[Program::Hivewire, Program::Axum, Program::Actix],
    }
}

/// How many rounds a heavy request takes.
#[derive(Debug, Clone, Copy)]
struct Rounds {
    rust: u32,
    node: u32,
}

/// All runs so far.
#[derive(Debug, Default)]
pub struct Runs {
    rounds: Option<Rounds>,
    /// By seconds in a run, too: a quick one is not compared with a long one.
    outcomes: HashMap<(Program, Workload, u32), Vec<Outcome>>,
    /// How many of them each case has seen.
    seen: HashMap<(&'static str, Program, Workload), usize>,
}

impl Runs {
    /// The next run of a program that this case has not seen. If there is none, all that are asked the same run in turn; ours is left
    /// out if a peer comes first, since then nobody has asked for ours.
    pub fn next(
        &mut self,
        case: &'static str,
        program: Program,
        workload: Workload,
        seconds: u32,
    ) -> Result<&Outcome> {
        let seen = self.seen.entry((case, program, workload)).or_default();
        let index = *seen;
        *seen += 1;
        if self.of(program, workload, seconds).len() <= index {
            let others = asked(workload).iter().copied();
            for other in others.filter(|other| program.is_ours() || !other.is_ours()) {
                if self.of(other, workload, seconds).len() <= index {
                    let outcome = self.run(other, workload, seconds, index as u64 + 1)?;
                    let key = (other, workload, seconds);
                    self.outcomes.entry(key).or_default().push(outcome);
                }
            }
        }
        Ok(&self.of(program, workload, seconds)[index])
    }

    /// The runs of a program.
    pub fn of(&self, program: Program, workload: Workload, seconds: u32) -> &[Outcome] {
        self.outcomes
            .get(&(program, workload, seconds))
            .map_or(&[], Vec::as_slice)
    }

    /// The median of a figure of all runs of a program, if there are any.
    pub fn median(
        &self,
        program: Program,
        workload: Workload,
        seconds: u32,
        figure: impl Fn(&Outcome) -> f64,
    ) -> Option<f64> {
        let runs = self.of(program, workload, seconds);
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    }

    /// How many rounds a heavy request takes with a program.
    pub fn rounds(&mut self, program: Program) -> Result<u32> {
        let rounds = match self.rounds {
            Some(rounds) => rounds,
            None => *self.rounds.insert(Rounds {
                rust: calibration::rounds(),
                node: node_rounds(HEAVY_NUMBER, calibration::HEAVY)?,
            }),
        };
        Ok(if program.is_node() {
            rounds.node
        } else {
            rounds.rust
        })
    }

    /// Starts a program, looks whether it answers as all do, and asks it.
    fn run(
        &mut self,
        program: Program,
        workload: Workload,
        seconds: u32,
        seed: u64,
    ) -> Result<Outcome> {
        let different = |reason| ServiceError::Different {
            program: program.name(),
            reason,
        };
        let rounds = self.rounds(program)?;
        let service = Service::start(program)?;
        let address = service.address();
        answers::check(address).map_err(different)?;
        let before = answers::stored(address).map_err(different)?;
        let outcome = workload.run(address, f64::from(seconds), rounds, seed)?;
        // With `Then` one computation, stored once, may serve for several requests.
        if let Workload::Stateful(how @ (Stateful::Sf1 | Stateful::Sf2), _) = workload
            && program.shares_state()
        {
            let stored = answers::stored(address).map_err(different)?;
            let stored = stored.saturating_sub(before);
            let answered = outcome.kinds.get(HEAVY).map_or(0, |kind| kind.answered);
            if stored < answered {
                return Err(different(lost_writes(how, stored, answered)));
            }
        }
        Ok(outcome)
    }
}

fn lost_writes(how: Stateful, stored: u64, answered: u64) -> String {
    format!(
        "{answered} exclusive requests of {how:?} were answered, but only {stored} results stored"
    )
}
