//! What is compared: one table of cases, and how one of them is run.

mod control;
mod crawl_content;
mod crawl_known;
mod crawl_nodes;
mod crawl_site;
mod crawl_workers;
mod elastic;
mod flow_chain;
mod flow_plugins;
mod gamq_published;
mod gateways;
mod nexmark;
mod node_fifty;
mod node_move;
mod node_shares;
mod node_take_over;
mod round_trip;
mod services;
mod stage_relay;
mod studio;
mod throughput;
mod topic_memory;
mod word_count;
mod worker_ask;
mod worker_durable;
mod worker_memory;
mod worker_replace;
mod worker_start;
mod worker_tell;

use std::time::Duration;

use crate::browser::{Seen, Shown};
use crate::crawls::known::Known;
use crate::crawls::served::Served;
use crate::drivers::LoadError;
use crate::elastic::plot;
use crate::elastic::staircase::{Staircase, climb};
use crate::gateways::Gateways;
use crate::nodes::ClusterError;
use crate::nodes::crowd::Crowd;
use crate::peers::PeerError;
use crate::peers::hivewire::Hivewire;
use crate::peers::nats::Nats;
use crate::peers::postgres::Postgres;
use crate::peers::rabbitmq::RabbitMq;
use crate::report::{self, Row};
use crate::services::runs::{Runs, ServiceError};
use crate::workers::WorkerError;

/// What can go wrong in a case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A system could not be started or asked.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The load failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Workers or actors did not do what they should.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// Nodes did not do what they should.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Services did not do what they should.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A picture could not be written.
    #[error("cannot write a picture: {0}")]
    Plot(#[from] std::io::Error),
    /// A case of this name does not exist.
    #[error("there is no case {name:?}; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names of all cases.
        known: String,
    },
}

/// The result of running cases.
pub type Result<T> = std::result::Result<T, CaseError>;

/// Which of the two systems is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Hivewire.
    Ours,
    /// The system it is compared with.
    Peer,
}

/// What the ratio of ours to the peer's figure is meant to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// More is better.
    AtLeast(f64),
    /// Less is better.
    AtMost(f64),
    /// It is only shown.
    None,
}

impl Target {
    /// Whether a ratio is good enough.
    pub fn is_reached(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
            Self::None => true,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(formatter, "≥ {least}×"),
            Self::AtMost(most) => write!(formatter, "≤ {most}×"),
            Self::None => formatter.write_str("–"),
        }
    }
}

/// What our figure is compared with.
#[derive(Debug, Clone, Copy)]
pub enum PeerFigure {
    /// Measured in the same run, in turn with ours.
    Measured,
    /// Published by its authors.
    Published(f64),
}

/// How many messages one repetition takes.
#[derive(Debug, Clone, Copy)]
pub enum Size {
    /// As many as last a given time, found by a first run of this many that is not counted.
    Timed {
        /// Messages of the first run.
        first_messages: u32,
    },
    /// Always the same number.
    Fixed {
        /// Messages of a full run.
        messages: u32,
        /// Messages of a quick run.
        quick_messages: u32,
    },
}

/// One figure, with a remark in plain words that may be empty.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// The figure, in the case's unit.
    pub value: f64,
    /// What else was seen.
    pub note: String,
}

/// One comparison.
#[derive(Debug)]
pub struct Case {
    /// Its name in `results.json` and on the command line.
    pub name: &'static str,
    /// What is measured and how, in plain words.
    pub description: &'static str,
    /// Whom we are compared with.
    pub peer_name: &'static str,
    /// Where the peer's figure comes from.
    pub peer: PeerFigure,
    /// The unit of both figures.
    pub unit: &'static str,
    /// What the ratio is meant to be.
    pub target: Target,
    /// How long a repetition is.
    pub size: Size,
    /// Runs one repetition with so many messages.
    pub measure: fn(&mut Systems, Side, u32) -> Result<Measurement>,
}

/// All cases, in the order in which they run.
pub fn all() -> Vec<&'static Case> {
    throughput::CASES
        .iter()
        .chain(round_trip::CASES)
        .chain(topic_memory::CASES)
        .chain(gamq_published::CASES)
        .chain(worker_tell::CASES)
        .chain(worker_ask::CASES)
        .chain(worker_start::CASES)
        .chain(worker_memory::CASES)
        .chain(worker_durable::CASES)
        .chain(worker_replace::CASES)
        .chain(flow_chain::CASES)
        .chain(nexmark::CASES)
        .chain(word_count::CASES)
        .chain(flow_plugins::CASES)
        .chain(stage_relay::CASES)
        .chain(gateways::CASES)
        .chain(node_move::CASES)
        .chain(node_take_over::CASES)
        .chain(node_shares::CASES)
        .chain(node_fifty::CASES)
        .chain(control::CASES)
        .chain(elastic::CASES)
        .chain(crawl_site::CASES)
        .chain(crawl_content::CASES)
        .chain(crawl_nodes::CASES)
        .chain(crawl_workers::CASES)
        .chain(crawl_known::CASES)
        .chain(studio::CASES)
        .chain(services::CASES)
        .collect()
}

/// The cases of these names, or all if there are none.
pub fn select(names: &[String]) -> Result<Vec<&'static Case>> {
    if names.is_empty() {
        return Ok(all());
    }
    names
        .iter()
        .map(|name| {
            let found = all().into_iter().find(|case| case.name == name);
            found.ok_or_else(|| CaseError::Unknown {
                name: name.clone(),
                known: all()
                    .iter()
                    .map(|case| case.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        })
        .collect()
}

/// The systems under test, each started when a case first needs it and kept for the others.
#[derive(Default)]
pub struct Systems {
    // Declared before the brokers, which they need to the end: fields drop in order.
    rabbitmq_gateways: Option<Gateways>,
    hivewire_gateways: Option<Gateways>,
    hivewire: Option<Hivewire>,
    rabbitmq: Option<RabbitMq>,
    nats: Option<Nats>,
    postgres: Option<Postgres>,
    crowd: Option<Crowd>,
    staircases: Option<(u32, Staircase, Staircase)>,
    site: Option<Served>,
    known: Option<Known>,
    studio: Option<Shown>,
    studio_day: Option<(u32, Seen)>,
    services: Runs,
    destinations: u32,
}

impl Systems {
    fn hivewire(&mut self) -> Result<&Hivewire> {
        started(&mut self.hivewire, Hivewire::start)
    }

    fn rabbitmq(&mut self) -> Result<&RabbitMq> {
        started(&mut self.rabbitmq, RabbitMq::start)
    }

    fn nats(&mut self) -> Result<&Nats> {
        started(&mut self.nats, Nats::start)
    }

    fn postgres(&mut self) -> Result<&Postgres> {
        started(&mut self.postgres, Postgres::start)
    }

    /// A node that hears so many others.
    fn crowd(&mut self, nodes: u32) -> Result<&Crowd> {
        if self
            .crowd
            .as_ref()
            .is_none_or(|crowd| crowd.nodes() != nodes)
        {
            self.crowd = None;
            self.crowd = Some(Crowd::gather(nodes)?);
        }
        Ok(self.crowd.as_ref().expect("it was just gathered"))
    }

    /// A site of so many pages on one host.
    fn site(&mut self, pages: u32) -> Result<&Served> {
        let pages = u64::from(pages);
        if self.site.as_ref().is_none_or(|site| site.pages() != pages) {
            self.site = None;
            self.site = Some(Served::start(pages, 1, Duration::ZERO)?);
        }
        Ok(self.site.as_ref().expect("it was just served"))
    }

    /// A node that knows so many URLs. To learn them takes minutes, so all cases share it.
    fn known(&mut self, urls: u32) -> Result<&mut Known> {
        let urls = u64::from(urls);
        if self.known.as_ref().is_none_or(|known| known.urls != urls) {
            self.known = None;
            self.known = Some(Known::learn(urls)?);
        }
        Ok(self.known.as_mut().expect("it has just learned them"))
    }

    /// A node whose studio is looked at.
    fn studio(&mut self) -> Result<&mut Shown> {
        started(&mut self.studio, Shown::start)?;
        Ok(self.studio.as_mut().expect("it was just started"))
    }

    /// The same, with a large flow that runs.
    fn busy_studio(&mut self) -> Result<&Shown> {
        let studio = self.studio()?;
        studio.run_flow()?;
        Ok(studio)
    }

    /// A page that is open for so many hours. That takes minutes, so it is done once.
    fn studio_day(&mut self, hours: u32) -> Result<&Seen> {
        if self.studio_day.as_ref().is_none_or(|(of, _)| *of != hours) {
            let studio = self.busy_studio()?;
            let seen = studio.measure(&["day", &hours.to_string()])?;
            self.studio_day = Some((hours, seen));
        }
        let (_, seen) = self.studio_day.as_ref().expect("it was just seen");
        Ok(seen)
    }

    /// A run of the staircase with scaling and one without, in so many hundredths of the whole time. They take minutes, so
    /// all cases share them.
    fn staircases(&mut self, hundredths: u32) -> Result<(&Staircase, &Staircase)> {
        if self
            .staircases
            .as_ref()
            .is_none_or(|(of, ..)| *of != hundredths)
        {
            let share = f64::from(hundredths) / 100.0;
            let (scaled, fixed) = (climb(share, true)?, climb(share, false)?);
            if hundredths == 100 {
                report::write_plot("staircase", &plot::draw(&scaled, &fixed))?;
            }
            self.staircases = Some((hundredths, scaled, fixed));
        }
        let (_, scaled, fixed) = self.staircases.as_ref().expect("they were just run");
        Ok((scaled, fixed))
    }

    /// A name that no earlier repetition has used, so that nothing is left over from one.
    fn fresh_destination(&mut self) -> String {
        self.destinations += 1;
        format!("bench-{}", self.destinations)
    }
}

fn started<T>(
    slot: &mut Option<T>,
    start: impl FnOnce() -> std::result::Result<T, PeerError>,
) -> Result<&T> {
    if slot.is_none() {
        *slot = Some(start()?);
    }
    // Filled above, so that this never starts a second one.
    Ok(slot.as_ref().expect("a system was just started"))
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How many repetitions count.
    pub repetitions: u32,
    /// How long a timed repetition is meant to last.
    pub seconds: f64,
    /// Whether fixed numbers of messages are the smaller ones.
    pub quick: bool,
}

impl Effort {
    /// Five repetitions of about a second and a half.
    pub const FULL: Self = Self {
        repetitions: 5,
        seconds: 1.5,
        quick: false,
    };
    /// Three repetitions of a quarter of a second: enough to see that everything works.
    pub const QUICK: Self = Self {
        repetitions: 3,
        seconds: 0.25,
        quick: true,
    };
}

impl Case {
    /// Runs both sides in turn and gives the medians.
    pub fn run(
        &self,
        systems: &mut Systems,
        effort: &Effort,
        mut progress: impl FnMut(Side, &Measurement),
    ) -> Result<Row> {
        let sides: &[Side] = match self.peer {
            PeerFigure::Measured => &[Side::Ours, Side::Peer],
            PeerFigure::Published(_) => &[Side::Ours],
        };
        let mut series = self.run_sides(sides, systems, effort, &mut progress)?;
        let peer = match self.peer {
            PeerFigure::Measured => median(&mut series[1]),
            PeerFigure::Published(value) => Measurement {
                value,
                note: String::new(),
            },
        };
        Ok(self.row(median(&mut series[0]), peer))
    }

    /// Runs the peer alone, to judge the driver. Gives nothing if its figure is a published one.
    pub fn run_peer(
        &self,
        systems: &mut Systems,
        effort: &Effort,
        mut progress: impl FnMut(Side, &Measurement),
    ) -> Result<Option<Measurement>> {
        if matches!(self.peer, PeerFigure::Published(_)) {
            return Ok(None);
        }
        let mut series = self.run_sides(&[Side::Peer], systems, effort, &mut progress)?;
        Ok(Some(median(&mut series[0])))
    }

    /// Measures the sides in turn, so that a change on the machine meets all of them.
    fn run_sides(
        &self,
        sides: &[Side],
        systems: &mut Systems,
        effort: &Effort,
        progress: &mut impl FnMut(Side, &Measurement),
    ) -> Result<Vec<Vec<Measurement>>> {
        let mut sizes = Vec::with_capacity(sides.len());
        for &side in sides {
            sizes.push(self.messages(systems, side, effort)?);
        }
        let mut series = vec![Vec::new(); sides.len()];
        for _ in 0..effort.repetitions {
            for (index, &side) in sides.iter().enumerate() {
                let measurement = (self.measure)(systems, side, sizes[index])?;
                progress(side, &measurement);
                series[index].push(measurement);
            }
        }
        Ok(series)
    }

    fn messages(&self, systems: &mut Systems, side: Side, effort: &Effort) -> Result<u32> {
        match self.size {
            Size::Fixed { messages, .. } if !effort.quick => Ok(messages),
            Size::Fixed { quick_messages, .. } => Ok(quick_messages),
            Size::Timed { first_messages } => {
                let first = (self.measure)(systems, side, first_messages)?;
                Ok((first.value * effort.seconds).max(f64::from(first_messages)) as u32)
            }
        }
    }

    fn row(&self, ours: Measurement, peer: Measurement) -> Row {
        let remarks = [("", ours.note), ("peer: ", peer.note)];
        let note = remarks
            .into_iter()
            .filter(|(_, note)| !note.is_empty())
            .map(|(whose, note)| format!("{whose}{note}"))
            .collect::<Vec<_>>()
            .join("; ");
        Row {
            name: self.name.to_owned(),
            ours: ours.value,
            peer: peer.value,
            peer_name: self.peer_name.to_owned(),
            ratio: ours.value / peer.value,
            unit: self.unit.to_owned(),
            note,
        }
    }
}

/// The measurement in the middle, with its own remark.
fn median(series: &mut [Measurement]) -> Measurement {
    series.sort_by(|left, right| left.value.total_cmp(&right.value));
    series[series.len() / 2].clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_can_be_selected() {
        let names: std::collections::HashSet<_> = all().iter().map(|case| case.name).collect();
        assert_eq!(names.len(), all().len());
        let one = select(&["round-trip".to_owned()]).expect("it exists");
        assert_eq!(one.len(), 1);
        let error = select(&["nothing".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("round-trip"), "{error}");
    }

    #[test]
    fn sides_are_measured_in_turn_and_medians_are_compared() {
        fn measure(systems: &mut Systems, side: Side, messages: u32) -> Result<Measurement> {
            assert_eq!(messages, 7);
            systems.destinations += 1;
            let number = f64::from(systems.destinations);
            Ok(Measurement {
                value: if side == Side::Ours {
                    number * 10.0
                } else {
                    number
                },
                note: String::new(),
            })
        }
        let case = Case {
            name: "x",
            description: "",
            peer_name: "peer",
            peer: PeerFigure::Measured,
            unit: "u",
            target: Target::AtLeast(5.0),
            size: Size::Fixed {
                messages: 7,
                quick_messages: 1,
            },
            measure,
        };
        let mut order = Vec::new();
        let row = case
            .run(&mut Systems::default(), &Effort::FULL, |side, _| {
                order.push(side)
            })
            .expect("it runs");
        assert_eq!(order[..4], [Side::Ours, Side::Peer, Side::Ours, Side::Peer]);
        assert_eq!(order.len(), 10);
        // Ours saw 1, 3, 5, 7, 9 (times ten), the peer 2, 4, 6, 8, 10.
        assert_eq!((row.ours, row.peer), (50.0, 6.0));
        assert!(case.target.is_reached(row.ratio));
    }

    #[test]
    fn targets_have_a_direction() {
        assert!(Target::AtMost(0.5).is_reached(0.4) && !Target::AtMost(0.5).is_reached(0.6));
        assert!(Target::AtLeast(5.0).is_reached(5.0) && !Target::AtLeast(5.0).is_reached(4.9));
    }
}
