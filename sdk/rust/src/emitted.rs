use crate::bindings::worker::hivewire::worker::messages;
use crate::bindings::worker::hivewire::worker::types::Bodies;

/// More are handed over before the end of the turn.
const MESSAGES_MAX: usize = 1_024;
const BYTES_MAX: usize = 64 << 10;

/// Bodies that were emitted to one output and are not handed to the host yet: for many together that is one call.
#[derive(Debug)]
pub(crate) struct Emitted {
    output: String,
    bodies: Bodies,
}

impl Default for Emitted {
    fn default() -> Self {
        let (bytes, ends) = (Vec::new(), Vec::new());
        Self {
            output: String::new(),
            bodies: Bodies { bytes, ends },
        }
    }
}

impl Emitted {
    pub(crate) fn push(&mut self, output: &str, body: &[u8]) {
        if self.output != output {
            self.hand_over();
            self.output.clear();
            self.output.push_str(output);
        }
        let Bodies { bytes, ends } = &mut self.bodies;
        bytes.extend_from_slice(body);
        ends.push(bytes.len() as u32);
        if ends.len() >= MESSAGES_MAX || bytes.len() >= BYTES_MAX {
            self.hand_over();
        }
    }

    /// Hands all of them to the host.
    pub(crate) fn hand_over(&mut self) {
        if !self.bodies.ends.is_empty() {
            messages::emit_all(&self.output, &self.bodies);
            self.clear();
        }
    }

    /// Forgets them and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bodies.bytes.clear();
        self.bodies.ends.clear();
    }
}
