//! From a stage of a document to what the runtime is told.

use kernel::worker::{InstanceLimits, TurnLimits};
use kernel::{AddressError, StageAddress};
use runtime::{Intake, RouterKind, StageKind, StageSpec};
use serde_json::Value;

use super::model::{Document, Limits, Stage};

impl Stage {
    /// How events find their workers.
    pub fn kind(&self) -> StageKind {
        if let Some(key) = &self.key {
            return StageKind::Keyed(key.clone());
        }
        let router = self.router.as_ref().map(|router| router.kind());
        match router.unwrap_or(RouterKind::RoundRobin) {
            kind if kind.is_routed() => StageKind::Routed(kind),
            kind => StageKind::Pool(kind),
        }
    }

    /// What every worker gets at its start: a text as it is, and anything else as JSON.
    pub fn args(&self) -> String {
        match &self.parameters {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            json => json.to_string(),
        }
    }

    /// How many workers it begins with.
    pub fn first_workers(&self) -> u32 {
        let smallest = || self.scale.as_ref().map_or(1, |scale| scale.rule().min);
        self.workers.unwrap_or_else(smallest)
    }
}

impl Limits {
    /// How messages are taken in.
    pub fn intake(&self) -> Intake {
        let usual = Intake::default();
        Intake {
            mailbox_messages_max: self
                .mailbox_messages_max
                .unwrap_or(usual.mailbox_messages_max),
            batch_messages_max: self.batch_messages_max.unwrap_or(usual.batch_messages_max),
            spill_messages_max: self.spill_messages_max.unwrap_or(usual.spill_messages_max),
            batch_ms: self.batch_ms.unwrap_or(usual.batch_ms),
            passivate_after_ms: self.passivate_after_ms.unwrap_or(usual.passivate_after_ms),
        }
    }

    /// What one instance may use up; what is not said is as in `usual`, which nodes can configure.
    pub fn instance(&self, usual: &InstanceLimits) -> InstanceLimits {
        InstanceLimits {
            memory_bytes_max: self.memory_bytes_max.unwrap_or(usual.memory_bytes_max),
            call_ms_max: self.call_ms_max.unwrap_or(usual.call_ms_max),
            host_calls_max: self.host_calls_max.unwrap_or(usual.host_calls_max),
        }
    }

    /// What one commit may hold.
    pub fn turn(&self) -> TurnLimits {
        let usual = TurnLimits::default();
        TurnLimits {
            sends_max: self.sends_max.unwrap_or(usual.sends_max),
            bytes_max: self.bytes_max.unwrap_or(usual.bytes_max),
        }
    }
}

impl Document {
    /// What the runtime is told about a stage. `usual` is for instances of which the document says nothing.
    pub fn spec(
        &self,
        name: &str,
        stage: &Stage,
        usual: &InstanceLimits,
    ) -> Result<StageSpec, AddressError> {
        let address = StageAddress::new(&self.flow, name)?;
        let mut spec = StageSpec::new(address)
            .workers(stage.first_workers())
            .kind(stage.kind())
            .delivery(self.promise(stage).delivery());
        for (output, places) in &stage.outputs {
            for place in &places.0 {
                spec = spec.output(output, place.address(&self.flow)?);
            }
        }
        spec.args = stage.args();
        spec.grants.clone_from(&stage.grants);
        spec.supervision = stage.supervision.clone().unwrap_or_default();
        spec.hand_over = stage.hand_over.clone().unwrap_or_default();
        spec.intake = stage.limits.intake();
        spec.instance_limits = stage.limits.instance(usual);
        spec.turn_limits = stage.limits.turn();
        spec.scale = stage.scale.as_ref().map(|scale| scale.rule());
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use kernel::Address;
    use runtime::Delivery;

    use super::*;

    #[test]
    fn a_stage_becomes_what_the_runtime_takes() {
        let text = r#"
            flow = "f"
            delivery = "at-most-once"
            [stages.a]
            plugin = "p"
            parameters = { each = "x", limit = 3 }
            outputs = { out = ["b", "queue:q"], odd = "other/s" }
            scale = { min = 2, max = 4, latency = "1s" }
            limits = { batch_ms = 7, memory_bytes_max = 5, sends_max = 9 }
            supervision = { tries_max = 5 }
            [stages.b]
            plugin = "p"
            key = "json:/k"
            delivery = "at-least-once"
            workers = 3
            [stages.c]
            plugin = "p"
            router = "broadcast"
            parameters = "as it is"
        "#;
        let document = Document::parse(text).unwrap().document;
        let usual = InstanceLimits::default();
        let spec = |name: &str| document.spec(name, &document.stages[name], &usual).unwrap();
        let a = spec("a");
        assert_eq!((a.workers, a.delivery), (2, Delivery::Memory));
        assert_eq!(a.args, r#"{"each":"x","limit":3}"#);
        let address = |text: &str| text.parse::<Address>().unwrap();
        assert_eq!(a.outputs["out"], [address("f/b"), address("queue:q")]);
        assert_eq!(a.outputs["odd"], [address("other/s")]);
        assert_eq!(a.scale.map(|scale| scale.latency_ms_max), Some(1_000));
        assert_eq!((a.intake.batch_ms, a.intake.batch_messages_max), (7, 256));
        assert_eq!(a.instance_limits.memory_bytes_max, 5);
        assert_eq!((a.turn_limits.sends_max, a.supervision.tries_max), (9, 5));
        let b = spec("b");
        assert_eq!((b.workers, b.delivery), (3, Delivery::Durable));
        assert_eq!(b.kind, StageKind::Keyed("json:/k".parse().unwrap()));
        let c = spec("c");
        assert_eq!(c.kind, StageKind::Routed(RouterKind::Broadcast));
        assert_eq!(c.args, "as it is");
    }
}
