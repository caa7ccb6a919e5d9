//! Which broken engine must be caught by which guarantee.

use std::sync::Arc;

use anyhow::{Context, Result};

use crate::engines::EmbeddedFixture;
use crate::engines::broken::{BrokenFixture, Fault};
use crate::suite::{Fixture, Guarantee, Needs, Outcome, World};

/// Each fault, with guarantees that it breaks.
pub const CONTROLS: &[(Fault, &[&str])] = &[
    (
        Fault::DropsMessages,
        &[
            "what is published is received",
            "competing subscribers get each message once",
            "an empty body arrives",
        ],
    ),
    (
        Fault::DuplicatesMessages,
        &[
            "what is published is received",
            "competing subscribers get each message once",
        ],
    ),
    (
        Fault::ReversesBatches,
        &[
            "order holds per sender",
            "a topic reaches every subscriber, in order",
        ],
    ),
    (
        Fault::ServesAll,
        &["subscribers in turn keep the order when one leaves"],
    ),
    (Fault::IgnoresCredit, &["credit is never exceeded"]),
    (
        Fault::HidesRedelivery,
        &[
            "what is not comes back, marked",
            "a retry comes again and is counted",
            "a refused commit's input comes again",
        ],
    ),
    (
        Fault::ForgetsAcknowledgements,
        &[
            "what is acknowledged is gone",
            "a commit of what is not held does nothing",
        ],
    ),
    (
        Fault::AcknowledgesEverything,
        &["acknowledging one spares the others"],
    ),
    (
        Fault::ChangesHeaders,
        &["binary bodies and headers are unchanged"],
    ),
    (
        Fault::ChangesBodies,
        &[
            "binary bodies and headers are unchanged",
            "an empty body arrives",
            "a body of 1 MiB arrives",
        ],
    ),
    (Fault::MixesQueues, &["many queues keep apart"]),
    (
        Fault::OverstatesLevels,
        &["an acknowledgement says what it is worth"],
    ),
    (
        Fault::CountsNoTries,
        &[
            "a retry comes again and is counted",
            "used-up tries end in the dead letters",
        ],
    ),
    (
        Fault::LosesReasons,
        &["a dead letter keeps contents and reason"],
    ),
    (Fault::RetriesAtTheEnd, &["a retry keeps its place"]),
    (
        Fault::HidesLostSubscribers,
        &["a lost subscriber counts as a try"],
    ),
    (
        Fault::KeepsTopics,
        &[
            "a topic reaches every subscriber, in order",
            "a late subscriber gets nothing old",
        ],
    ),
    (
        Fault::MergesTopicsAndQueues,
        &["a topic and a queue of one name keep apart"],
    ),
    (
        Fault::PromisesWithoutDisk,
        &["what is promised as synced survives a crash"],
    ),
    (
        Fault::IgnoresEpochs,
        &[
            "an older epoch is refused",
            "raising the epoch fences a running owner",
            "state and epochs survive a crash",
        ],
    ),
    (
        Fault::SplitsCommits,
        &[
            "sends of a refused commit never appear",
            "a crash at any point leaves all or nothing",
        ],
    ),
    (
        Fault::OverwritesDocuments,
        &[
            "a document changes only from what is known",
            "of many who change a document one wins",
        ],
    ),
    (Fault::ForgetsDocuments, &["documents survive a crash"]),
    (
        Fault::HidesDeletedDocuments,
        &["documents are listed in order"],
    ),
    (
        Fault::ConsumesRefusedInput,
        &["a refused commit's input comes again"],
    ),
    (
        Fault::ForgetsWrites,
        &[
            "a commit does all of it",
            "state and epochs survive a crash",
        ],
    ),
    (Fault::MixesBuckets, &["state is read back in order"]),
];

/// Guarantees that no broken engine here can break, and why.
pub const WITHOUT_CONTROL: &[(&str, &str)] = &[
    (
        "what is not supported is refused clearly",
        "the embedded engine supports everything",
    ),
    (
        "clients outlive a crash of the engine",
        "the embedded engine has no clients",
    ),
];

/// Faults that must also be caught where state and messages are on two servers.
pub const STORED: &[(&str, Fault)] = &[
    ("a commit does all of it", Fault::ForgetsWrites),
    ("an older epoch is refused", Fault::IgnoresEpochs),
    (
        "sends of a refused commit never appear",
        Fault::SplitsCommits,
    ),
    (
        "a refused commit's input comes again",
        Fault::ConsumesRefusedInput,
    ),
    (
        "a commit of what is not held does nothing",
        Fault::ForgetsAcknowledgements,
    ),
    ("state is read back in order", Fault::MixesBuckets),
];

/// What a broken engine came to.
pub struct Control {
    pub fault: Fault,
    pub guarantee: &'static str,
    /// How it was caught, or why it was not.
    pub caught: Result<String>,
}

/// Runs every control against the embedded engine.
pub async fn run(guarantees: &[Guarantee]) -> Result<Vec<Control>> {
    let mut controls = Vec::new();
    for (fault, names) in CONTROLS {
        for name in *names {
            let guarantee = find(guarantees, name)?;
            let inner = Arc::new(EmbeddedFixture::start()?);
            controls.push(run_one(guarantee, inner, *fault).await?);
        }
    }
    Ok(controls)
}

/// Runs one control.
pub async fn run_one(
    guarantee: &Guarantee,
    inner: Arc<dyn Fixture>,
    fault: Fault,
) -> Result<Control> {
    let world = World::new(Arc::new(BrokenFixture { inner, fault })).await?;
    let caught = match guarantee.ask(&world).await {
        Outcome::Broken(how) => Ok(how),
        outcome => Err(anyhow::anyhow!("the suite did not notice: {outcome:?}")),
    };
    Ok(Control {
        fault,
        guarantee: guarantee.name,
        caught,
    })
}

pub fn find<'a>(guarantees: &'a [Guarantee], name: &str) -> Result<&'a Guarantee> {
    let found = guarantees.iter().find(|guarantee| guarantee.name == name);
    found.with_context(|| format!("a control names an unknown guarantee: {name}"))
}

/// Guarantees for which there is neither a control nor a reason why not.
pub fn uncontrolled(guarantees: &[Guarantee]) -> Vec<&'static str> {
    let is_controlled = |guarantee: &Guarantee| {
        let mut controlled = CONTROLS.iter().flat_map(|(_, names)| names.iter());
        controlled.any(|name| *name == guarantee.name)
            || WITHOUT_CONTROL
                .iter()
                .any(|(name, _)| *name == guarantee.name)
            || guarantee.needs == Needs::Network
    };
    let without = guarantees
        .iter()
        .filter(|guarantee| !is_controlled(guarantee));
    without.map(|guarantee| guarantee.name).collect()
}
