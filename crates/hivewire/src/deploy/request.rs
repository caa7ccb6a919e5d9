//! What somebody wants to be deployed.

use std::collections::BTreeMap;

use kernel::worker::{InstanceLimits, TurnLimits};
use kernel::{Address, Grant, Name, StageAddress};
use runtime::{
    Delivery, HandOverRule, Intake, KeyRule, RouterKind, StageKind, StageSpec, SupervisionRule,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::DeployError;
use super::expected::Expected;
use super::sharing::Places;
use super::source::Source;

/// How a component that was uploaded before is named.
const DIGEST_PREFIX: &str = "sha256:";

/// What somebody wants to be deployed. What is not said stays as it is or, if the stage is new, as
/// it usually is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeployRequest {
    /// The stage.
    #[serde(rename = "as")]
    pub stage: StageAddress,
    /// Where the component comes from: an absolute path, a URI, `plugin:ID@VERSION` or `sha256:DIGEST`.
    #[schemars(with = "String")]
    pub source: Given,
    /// How many workers.
    pub workers: Option<u32>,
    /// How messages find their workers: a kind of router, or where one's own comes from.
    #[schemars(with = "Option<String>")]
    pub router: Option<RouterRequest>,
    /// Where the key of a message is; makes the stage a keyed one.
    pub key: Option<KeyRule>,
    /// What messages and state are worth.
    pub delivery: Option<Delivery>,
    /// Where outputs lead.
    pub outputs: Option<BTreeMap<String, Vec<Address>>>,
    /// What workers get at their start: a text, or JSON.
    #[serde(default, deserialize_with = "args")]
    #[schemars(with = "Option<Value>")]
    pub args: Option<String>,
    /// What workers may do beyond their flow.
    pub grants: Option<Vec<Grant>>,
    /// Whether the sources are watched. Without a word they are.
    pub watch: Option<bool>,
    /// What happens when a worker fails.
    pub supervision: Option<SupervisionRule>,
    /// What one instance may use up.
    pub instance_limits: Option<InstanceLimits>,
    /// What one commit may hold.
    pub turn_limits: Option<TurnLimits>,
    /// How messages are taken in.
    pub intake: Option<Intake>,
    /// How a new version proves itself.
    pub hand_over: Option<HandOverRule>,
    /// The nodes that it runs on; one that is there twice gets twice as much.
    pub on: Option<Vec<String>>,
    /// All nodes share it, whatever was named before.
    #[serde(default)]
    pub spread: bool,
    /// What was named for a node that is dead waits for it, instead of going elsewhere.
    pub strict: Option<bool>,
    /// It is the replica of one node, where there may be others.
    #[serde(skip)]
    pub replica: Option<Replica>,
    /// All that the stage is to be, whatever it was.
    #[serde(skip)]
    pub whole: Option<Box<StageSpec>>,
    /// What must be there before.
    #[serde(skip)]
    pub expected: Expected,
}

/// What one node has of a stage. If all is as the request says already, nothing is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The node that it was deployed for.
    pub of: String,
    /// Where each of its workers runs.
    pub on: Vec<String>,
}

/// A component, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Given {
    /// By where it comes from.
    Source(Source),
    /// By the digest that its upload gave.
    Digest(String),
}

impl TryFrom<String> for Given {
    type Error = super::source::SourceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.strip_prefix(DIGEST_PREFIX) {
            Some(digest) => Ok(Self::Digest(digest.to_owned())),
            None => text.parse().map(Self::Source),
        }
    }
}

/// A router, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum RouterRequest {
    /// One that is built in.
    Kind(RouterKind),
    /// One's own.
    Own(Given),
}

impl TryFrom<String> for RouterRequest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse::<RouterKind>() {
            Ok(RouterKind::Own) => {
                Err("name the component of your own router: its path or URI".to_owned())
            }
            Ok(kind) => Ok(Self::Kind(kind)),
            Err(error) => Given::try_from(text)
                .map(Self::Own)
                .map_err(|_| format!("{error}, or the path or URI of your own")),
        }
    }
}

impl DeployRequest {
    /// This source as this stage, and nothing else said.
    pub fn new(stage: StageAddress, source: Given) -> Self {
        Self {
            stage,
            source,
            workers: None,
            router: None,
            key: None,
            delivery: None,
            outputs: None,
            args: None,
            grants: None,
            watch: None,
            supervision: None,
            instance_limits: None,
            turn_limits: None,
            intake: None,
            hand_over: None,
            on: None,
            spread: false,
            strict: None,
            replica: None,
            whole: None,
            expected: Expected::default(),
        }
    }

    /// The stage as it is to be: as it was, with what the request says.
    pub(super) fn spec(&self, was: StageSpec) -> Result<StageSpec, DeployError> {
        if let Some(whole) = &self.whole {
            return Ok((**whole).clone());
        }
        let mut spec = was;
        if let Some(kind) = self.kind()? {
            spec.kind = kind;
        }
        replace(&mut spec.workers, self.workers);
        replace(&mut spec.delivery, self.delivery);
        replace(&mut spec.outputs, self.outputs.clone());
        replace(&mut spec.args, self.args.clone());
        replace(&mut spec.grants, self.grants.clone());
        replace(&mut spec.supervision, self.supervision.clone());
        replace(&mut spec.instance_limits, self.instance_limits.clone());
        replace(&mut spec.turn_limits, self.turn_limits.clone());
        replace(&mut spec.intake, self.intake.clone());
        replace(&mut spec.hand_over, self.hand_over.clone());
        Ok(spec)
    }

    /// Where it is to run, if several nodes share it.
    pub(super) fn places(&self, was: Places) -> Result<Places, DeployError> {
        let mut places = was;
        if self.spread {
            if self.on.is_some() {
                return Err(DeployError::Request(
                    "a stage runs on the nodes that are named or is spread over all, not both"
                        .to_owned(),
                ));
            }
            places = Places::default();
        }
        // With another number of workers there is no longer one for each place of a replica.
        if self.workers.is_some() && self.replica.is_none() && !places.replicas.is_empty() {
            let on = std::mem::take(&mut places.on);
            places.name(on);
        }
        if let Some(on) = &self.on {
            for node in on {
                Name::new(node).map_err(|error| {
                    DeployError::Request(format!("{node:?} is no name of a node: {error}"))
                })?;
            }
            places.name(on.clone());
        }
        replace(&mut places.strict, self.strict);
        Ok(places)
    }

    /// Whether it says anything about nodes.
    pub(super) fn names_places(&self) -> bool {
        self.on.is_some() || self.spread || self.strict.is_some()
    }

    fn kind(&self) -> Result<Option<StageKind>, DeployError> {
        match (&self.router, &self.key) {
            (Some(_), Some(_)) => Err(DeployError::Request(
                "a stage has either a router or a key: a key decides by itself which worker gets a message"
                    .to_owned(),
            )),
            (None, Some(key)) => Ok(Some(StageKind::Keyed(key.clone()))),
            (Some(RouterRequest::Kind(kind)), None) if kind.is_routed() => {
                Ok(Some(StageKind::Routed(*kind)))
            }
            (Some(RouterRequest::Kind(kind)), None) => Ok(Some(StageKind::Pool(*kind))),
            (Some(RouterRequest::Own(_)), None) => Ok(Some(StageKind::Routed(RouterKind::Own))),
            (None, None) => Ok(None),
        }
    }
}

/// A text as it is, and anything else as JSON.
fn args<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        json => Some(json.to_string()),
    })
}

fn replace<T>(value: &mut T, by: Option<T>) {
    if let Some(by) = by {
        *value = by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(more: &str) -> Result<DeployRequest, serde_json::Error> {
        serde_json::from_str(&format!(r#"{{"as":"a/b","source":"/w.wasm"{more}}}"#))
    }

    fn spec(more: &str) -> StageSpec {
        let was = StageSpec::new("a/b".parse().unwrap()).workers(5);
        request(more).unwrap().spec(was).unwrap()
    }

    #[test]
    fn what_is_not_said_stays_as_it_is() {
        assert_eq!(spec("").workers, 5);
        let changed = spec(r#","workers":2,"delivery":"memory","outputs":{"o":["c/d"]}"#);
        assert_eq!((changed.workers, changed.delivery), (2, Delivery::Memory));
        assert_eq!(changed.outputs["o"], ["c/d".parse().unwrap()]);
        assert_eq!(spec(r#","args":"a b""#).args, "a b");
        assert_eq!(spec(r#","args":{"limit":3}"#).args, r#"{"limit":3}"#);
    }

    #[test]
    fn routers_and_keys_decide_on_the_kind() {
        let kind = |more: &str| spec(more).kind;
        assert_eq!(
            kind(r#","router":"random""#),
            StageKind::Pool(RouterKind::Random)
        );
        let broadcast = StageKind::Routed(RouterKind::Broadcast);
        assert_eq!(kind(r#","router":"broadcast""#), broadcast);
        let own = StageKind::Routed(RouterKind::Own);
        assert_eq!(kind(r#","router":"/r.wasm""#), own);
        assert_eq!(
            kind(r#","key":"header:k""#),
            StageKind::Keyed("header:k".parse().unwrap())
        );
        let both = request(r#","router":"random","key":"body""#).unwrap();
        assert!(both.spec(StageSpec::new("a/b".parse().unwrap())).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (more, expected) in [
            (r#","router":"sticky""#, "round-robin"),
            (r#","router":"own""#, "path or URI"),
            (r#","key":"k""#, "header:NAME"),
            (r#","worker":1"#, "unknown field"),
            (r#","grants":["all"]"#, "send:ADDRESS"),
        ] {
            let error = request(more).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let uploaded: Given = serde_json::from_str("\"sha256:00\"").unwrap();
        assert_eq!(uploaded, Given::Digest("00".to_owned()));
    }
}
