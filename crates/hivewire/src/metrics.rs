//! Metrics that are read off the broker and the journal when somebody asks.

use std::fmt;
use std::sync::Arc;

use broker::{Broker, QueueStats};
use kernel::Name;
use kernel::metrics::encoding::{DescriptorEncoder, EncodeMetric};
use kernel::metrics::{Collector, ConstCounter, ConstGauge};
use runtime::{Runtime, StageState, StageView};

/// Queues beyond this many, in the order of their names, are left out: each makes several lines.
const QUEUES_MAX: usize = 1_000;

/// Reads the journal's and the queues' numbers.
pub(crate) struct BrokerCollector(pub Arc<Broker>);

impl fmt::Debug for BrokerCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BrokerCollector")
    }
}

impl Collector for BrokerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_journal(&mut encoder)?;
        let queues = self.0.queues();
        gauge(
            &mut encoder,
            "queues",
            "Queues there are",
            queues.len() as u64,
        )?;
        gauge(
            &mut encoder,
            "topics",
            "Topics there are",
            self.0.topics().len() as u64,
        )?;
        let shown = &queues[..queues.len().min(QUEUES_MAX)];
        for family in QUEUE_FAMILIES {
            family.encode(&mut encoder, shown)?;
        }
        Ok(())
    }
}

impl BrokerCollector {
    fn encode_journal(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let journal = self.0.journal();
        let counters = journal.counters();
        for (name, help, value) in [
            (
                "journal_syncs",
                "Batches written and synced",
                counters.syncs,
            ),
            (
                "journal_records",
                "Records appended",
                counters.appended_records,
            ),
            (
                "journal_record_bytes",
                "Bytes of appended records",
                counters.appended_bytes,
            ),
            (
                "journal_written_bytes",
                "Bytes written, with headers and filling",
                counters.written_bytes,
            ),
            (
                "journal_segments_created",
                "Segments made",
                counters.segments_created,
            ),
            (
                "journal_segments_deleted",
                "Segments deleted",
                counters.segments_deleted,
            ),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        let seconds = ConstCounter::new(counters.sync_time.as_secs_f64());
        let help = "Time spent in syncs";
        let kind = seconds.metric_type();
        seconds.encode(encoder.encode_descriptor("journal_sync_seconds", help, None, kind)?)?;
        let segments = journal.segments();
        let bytes = segments
            .iter()
            .map(|segment| u64::from(segment.bytes))
            .sum();
        gauge(
            encoder,
            "journal_segments",
            "Segments in use",
            segments.len() as u64,
        )?;
        gauge(encoder, "journal_bytes", "Bytes of segments in use", bytes)?;
        gauge(
            encoder,
            "journal_failed",
            "1 if the journal has stopped",
            u64::from(journal.failure().is_some()),
        )?;
        gauge(
            encoder,
            "memory_bytes",
            "Bytes of waiting messages in memory",
            self.0.memory_bytes() as u64,
        )?;
        let state = self.0.state_bytes();
        gauge(
            encoder,
            "state_memory_bytes",
            "Bytes of state in memory",
            state.memory,
        )?;
        gauge(
            encoder,
            "state_disk_bytes",
            "Bytes of state on disk, beside the journal",
            state.disk,
        )?;
        gauge(
            encoder,
            "state_store_failed",
            "1 if state cannot be moved to disk",
            u64::from(!self.0.state_store_works()),
        )
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

/// One number of every queue.
struct QueueFamily {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    value: fn(&QueueStats) -> u64,
}

#[rustfmt::skip]
const QUEUE_FAMILIES: &[QueueFamily] = &[
    QueueFamily { name: "queue_messages", help: "Messages that wait", is_counter: false, value: |stats| stats.waiting as u64 },
    QueueFamily { name: "queue_messages_on_disk", help: "Messages that wait on disk", is_counter: false, value: |stats| stats.on_disk as u64 },
    QueueFamily { name: "queue_unacknowledged", help: "Messages that consumers have not acknowledged", is_counter: false, value: |stats| stats.unacknowledged as u64 },
    QueueFamily { name: "queue_bytes", help: "Bytes of waiting and unacknowledged messages", is_counter: false, value: |stats| stats.bytes },
    QueueFamily { name: "queue_consumers", help: "Subscribers", is_counter: false, value: |stats| stats.subscribers as u64 },
    QueueFamily { name: "queue_published", help: "Messages taken in", is_counter: true, value: |stats| stats.totals.published },
    QueueFamily { name: "queue_delivered", help: "Messages handed to subscribers", is_counter: true, value: |stats| stats.totals.delivered },
    QueueFamily { name: "queue_acknowledged", help: "Messages that are done", is_counter: true, value: |stats| stats.totals.acknowledged },
    QueueFamily { name: "queue_dead", help: "Messages that went to the dead letters", is_counter: true, value: |stats| stats.totals.dead },
    QueueFamily { name: "queue_refused", help: "Messages refused at a limit", is_counter: true, value: |stats| stats.totals.refused },
];

impl QueueFamily {
    fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        queues: &[(Name, QueueStats)],
    ) -> fmt::Result {
        let kind = if self.is_counter {
            ConstCounter::new(0_u64).metric_type()
        } else {
            ConstGauge::new(0_u64).metric_type()
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for (name, stats) in queues {
            let value = (self.value)(stats);
            let labels = [("queue", name.as_str())];
            let member = family.encode_family(&labels)?;
            if self.is_counter {
                ConstCounter::new(value).encode(member)?;
            } else {
                ConstGauge::new(value).encode(member)?;
            }
        }
        Ok(())
    }
}

/// Stages beyond this many, in the order of their names, are left out.
const STAGES_MAX: usize = 1_000;

/// Reads the numbers of stages.
pub(crate) struct StageCollector(pub Arc<Runtime>);

impl fmt::Debug for StageCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StageCollector")
    }
}

impl Collector for StageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut addresses = self.0.addresses();
        addresses.sort();
        gauge(
            &mut encoder,
            "stages",
            "Stages that run here",
            addresses.len() as u64,
        )?;
        let shown = addresses.iter().take(STAGES_MAX);
        let stages: Vec<StageView> = shown.filter_map(|address| self.0.stage(address)).collect();
        for family in STAGE_FAMILIES {
            family.encode(&mut encoder, &stages)?;
        }
        Ok(())
    }
}

/// One number of every stage.
struct StageFamily {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    value: fn(&StageView) -> u64,
}

#[rustfmt::skip]
const STAGE_FAMILIES: &[StageFamily] = &[
    StageFamily { name: "stage_turns", help: "Turns", is_counter: true, value: |stage| stage.turns },
    StageFamily { name: "stage_failures", help: "Turns that failed", is_counter: true, value: |stage| stage.failures },
    StageFamily { name: "stage_restarts", help: "Restarts of workers", is_counter: true, value: |stage| stage.restarts },
    StageFamily { name: "stage_dead", help: "Messages that went to the dead letters", is_counter: true, value: |stage| stage.dead },
    StageFamily { name: "stage_unconnected", help: "Messages emitted to outputs that lead nowhere", is_counter: true, value: |stage| stage.unconnected },
    StageFamily { name: "stage_late_replies", help: "Replies that came after their time", is_counter: true, value: |stage| stage.late_replies },
    StageFamily { name: "stage_waiting", help: "Messages that wait in this process for a worker", is_counter: false, value: |stage| stage.waiting },
    StageFamily { name: "stage_workers", help: "Workers", is_counter: false, value: |stage| u64::from(stage.workers_count) },
    StageFamily { name: "stage_stands", help: "1 if it stands still because messages find no room", is_counter: false, value: |stage| u64::from(stage.stands.is_some()) },
    StageFamily { name: "stage_running", help: "1 if it takes messages", is_counter: false, value: |stage| u64::from(stage.state != StageState::Failed) },
];

impl StageFamily {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, stages: &[StageView]) -> fmt::Result {
        let kind = if self.is_counter {
            ConstCounter::new(0_u64).metric_type()
        } else {
            ConstGauge::new(0_u64).metric_type()
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for stage in stages {
            let value = (self.value)(stage);
            let address = &stage.spec.address;
            let labels = [
                ("flow", address.flow().as_str()),
                ("stage", address.stage().as_str()),
            ];
            let member = family.encode_family(&labels)?;
            if self.is_counter {
                ConstCounter::new(value).encode(member)?;
            } else {
                ConstGauge::new(value).encode(member)?;
            }
        }
        Ok(())
    }
}
