//! Which workers a program has, and on which gateways.

use std::ops::Range;

use kernel::StageAddress;
use serde_json::{Value, json};

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends numbered messages to the consumers.
    Producer,
    /// Takes them and remembers which ones came.
    Consumer,
    /// Asks a supplier, and again when the answer has come.
    Requester,
    /// Answers.
    Supplier,
}

impl Role {
    /// The stage of this role in a flow.
    pub fn stage(self, flow: &str) -> StageAddress {
        let name = match self {
            Self::Producer => "producers",
            Self::Consumer => "consumers",
            Self::Requester => "requesters",
            Self::Supplier => "suppliers",
        };
        StageAddress::new(flow, name).expect("both are names")
    }

    /// The component in `tests/workers`.
    pub fn component(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Requester => "requester",
            Self::Supplier => "sink",
        }
    }

    /// What the stage needs to know.
    fn args(self, flow: &str) -> String {
        match self {
            Self::Requester => Self::Supplier.stage(flow).to_string(),
            Self::Supplier => "1".to_owned(),
            Self::Producer | Self::Consumer => String::new(),
        }
    }

    fn outputs(self, flow: &str) -> Value {
        match self {
            Self::Producer => json!({ "out": [Self::Consumer.stage(flow).to_string()] }),
            _ => json!({}),
        }
    }
}

/// Workers of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// What they do.
    pub role: Role,
    /// How many there are on all gateways together.
    pub count: u32,
    /// The numbers of the gateways that have them.
    pub on: Range<usize>,
}

impl Workers {
    /// What a node needs to know to deploy them.
    pub fn deployment(&self, flow: &str, source: &str, nodes: &[&str]) -> Value {
        json!({
            "as": self.role.stage(flow).to_string(),
            "source": source,
            "watch": false,
            "workers": self.count,
            "args": self.role.args(flow),
            "outputs": self.role.outputs(flow),
            "on": nodes[self.on.clone()],
            // What a consumer remembers is in its memory.
            "intake": { "passivate_after_ms": 0 },
        })
    }
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its workers, by role.
    pub workers: Vec<Workers>,
    /// How many messages of one queue a gateway may have on their way.
    pub prefetch: u32,
}

impl Plan {
    /// The workers of a role.
    pub fn of(&self, role: Role) -> Option<&Workers> {
        self.workers.iter().find(|workers| workers.role == role)
    }

    /// How many gateways it needs.
    pub fn gateways(&self) -> usize {
        let ends = self.workers.iter().map(|workers| workers.on.end);
        ends.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_names_the_gateways_and_whom_to_send_to() {
        let workers = Workers {
            role: Role::Producer,
            count: 8,
            on: 1..3,
        };
        let deployment = workers.deployment("f", "/p.wasm", &["a", "b", "c"]);
        assert_eq!(deployment["as"], "f/producers");
        assert_eq!(deployment["on"], json!(["b", "c"]));
        assert_eq!(deployment["outputs"]["out"][0], "f/consumers");
        let plan = Plan {
            workers: vec![workers],
            prefetch: 1,
        };
        assert_eq!(plan.gateways(), 3);
        assert!(plan.of(Role::Consumer).is_none());
    }
}
