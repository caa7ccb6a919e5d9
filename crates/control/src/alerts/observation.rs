//! What a node sees of itself and of those around it, at one moment.

use std::collections::BTreeMap;

/// What tells one alert of a rule from another, such as the stage that it is about.
pub type Labels = BTreeMap<String, String>;

/// What a node sees at one moment.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// What it has heard of other nodes.
    pub nodes: NodesSeen,
    /// Its stages, or its parts of them.
    pub stages: Vec<StageSeen>,
    /// How many messages have gone to the dead letters so far, as far as this node knows.
    pub dead_letters: u64,
    /// The queues of its broker, if it has one.
    pub queues: Vec<QueueSeen>,
    /// The room on the disk of its data folder, in hundredths; none if that cannot be told.
    pub disk_free_percent: Option<f64>,
    /// Its journal, if it has one.
    pub journal: Option<JournalSeen>,
    /// Where the expressions of rules are true, by the rule. What is not there is not known.
    pub expressions: BTreeMap<String, Vec<Match>>,
}

/// What a node has heard of the others.
#[derive(Clone, Debug, Default)]
pub enum NodesSeen {
    /// It stands alone.
    #[default]
    Alone,
    /// It hears nobody, so it cannot tell who lives.
    CutOff {
        /// Its own name.
        me: String,
    },
    /// These, itself among them.
    Heard {
        /// Its own name.
        me: String,
        /// All that were heard of.
        nodes: Vec<NodeSeen>,
    },
}

/// A node that was heard of.
#[derive(Clone, Debug)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// Whether it was heard of late.
    pub lives: bool,
    /// Whether it said last that it gives everything away, as one does that was told to stop.
    pub leaves: bool,
}

/// A stage.
#[derive(Clone, Debug)]
pub struct StageSeen {
    /// Its address.
    pub address: String,
    /// How often its workers were restarted so far.
    pub restarts: u64,
    /// Why it does not run, if it does not.
    pub failure: Option<String>,
    /// Why it stands still, if it does.
    pub stands: Option<String>,
}

/// A queue.
#[derive(Clone, Debug)]
pub struct QueueSeen {
    /// Its name.
    pub name: String,
    /// How long its oldest message has waited.
    pub oldest_age_ms: u64,
}

/// How the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalSeen {
    /// It takes what comes.
    Well,
    /// The disk is full.
    Full,
    /// It has failed, for this reason.
    Failed(String),
}

/// Where an expression is true.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The labels of the metrics in it.
    pub labels: Labels,
    /// The first of the metrics.
    pub value: f64,
    /// All of them, for people.
    pub detail: String,
}

/// Who tells what all nodes see.
#[derive(Clone, Debug)]
pub(super) struct Speakers<'a> {
    me: &'a str,
    /// Those that live, by name. Empty if that is not known.
    living: Vec<&'a str>,
}

impl<'a> Speakers<'a> {
    pub fn of(nodes: &'a NodesSeen) -> Self {
        let (me, living) = match nodes {
            NodesSeen::Alone => ("", Vec::new()),
            NodesSeen::CutOff { me } => (me.as_str(), Vec::new()),
            NodesSeen::Heard { me, nodes } => {
                let living = nodes.iter().filter(|node| node.lives);
                let mut living: Vec<&str> = living.map(|node| node.name.as_str()).collect();
                living.sort_unstable();
                (me.as_str(), living)
            }
        };
        Self { me, living }
    }

    /// The node that tells what all see: the first by name of those that live. None: this one.
    pub fn other(&self) -> Option<&'a str> {
        self.living
            .first()
            .copied()
            .filter(|first| *first != self.me)
    }

    pub fn lives(&self, node: &str) -> bool {
        self.living.contains(&node)
    }
}
