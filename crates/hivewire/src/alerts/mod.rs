//! Alerts of a node: looks at regular intervals at what there is to see, and sends what
//! [`control::alerts`] has to tell to webhooks and by e-mail.

mod delivery;
mod email;
mod error;
mod expression;
mod letter;
mod observe;
mod rules;
mod samples;
mod seen;
mod settings;
mod silences;
mod webhook;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError};
use control::alerts::{Alert, Alerts, Condition, Notice, Rule, Silence, SilenceError};
use kernel::{Clock, Timestamp};
use parking_lot::{Mutex, RwLock};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, interval};

pub(crate) use self::delivery::{AlertCounters, Tested};
use self::delivery::{Carrier, Mailbox, Receiver, Retry};
use self::email::Email;
pub use self::error::AlertError;
use self::expression::Expression;
use self::letter::Letter;
use self::observe::{Expressions, Troubles};
pub(crate) use self::seen::{AlertShown, AlertsSeen, NodeReceiver, together};
pub use self::settings::{
    AlertSettings, EmailSettings, MailTls, RuleKind, RuleSettings, WebhookSettings,
};
use self::silences::SilenceStore;
use self::webhook::Webhook;
use crate::events::{Event, Events, kind};
use crate::http;
use crate::rest::Running;

const RECEIVERS_MAX: usize = 20;
const LOOK_EVERY_MS_MIN: u64 = 100;
/// How long a look waits for the silences; without them it goes by those it knows.
const SILENCES_TIMEOUT: Duration = Duration::from_secs(2);
const RUN_BYTES: usize = 8;
/// Of so many alerts it is remembered that they were told.
const TOLD_MAX: usize = 10_000;

/// What was set about alerts, understood.
pub(crate) struct Plan {
    rules: Vec<Rule>,
    expressions: Expressions,
    carriers: Vec<(String, Arc<dyn Carrier>)>,
    settings: AlertSettings,
}

impl Plan {
    /// Understands what was set.
    pub fn new(settings: &AlertSettings) -> Result<Self, AlertError> {
        check_numbers(settings)?;
        let rules = rules::resolve(settings)?;
        let mut expressions = Expressions::new();
        for rule in &rules {
            if let Condition::Expression { expression } = &rule.condition {
                let parsed = Expression::parse(expression).map_err(|problem| AlertError::Rule {
                    name: rule.name.clone(),
                    problem,
                })?;
                expressions.insert(rule.name.clone(), parsed);
            }
        }
        let mut carriers: Vec<(String, Arc<dyn Carrier>)> = Vec::new();
        for webhook in &settings.webhooks {
            let webhook = Webhook::new(webhook)?;
            carriers.push((webhook.shown(), Arc::new(webhook)));
        }
        for email in &settings.emails {
            let email = Email::new(email)?;
            carriers.push((email.shown(), Arc::new(email)));
        }
        Ok(Self {
            rules,
            expressions,
            carriers,
            settings: settings.clone(),
        })
    }
}

fn check_numbers(settings: &AlertSettings) -> Result<(), AlertError> {
    let wrong = |key, problem: String| Err(AlertError::Setting { key, problem });
    if settings.look_every_ms < LOOK_EVERY_MS_MIN {
        return wrong("look_every_ms", format!("is at least {LOOK_EVERY_MS_MIN}"));
    }
    if settings.repeat_seconds == 0 {
        return wrong("repeat_seconds", "is at least 1".to_owned());
    }
    if settings.tries_max == 0 {
        return wrong("tries_max", "is at least 1".to_owned());
    }
    if settings.waiting_notices_max == 0 {
        return wrong("waiting_notices_max", "is at least 1".to_owned());
    }
    if settings.webhooks.len() + settings.emails.len() > RECEIVERS_MAX {
        let problem = format!("and `alerts.emails` are together at most {RECEIVERS_MAX}");
        return wrong("webhooks", problem);
    }
    Ok(())
}

/// A rule as people see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RuleShown {
    #[serde(flatten)]
    rule: Rule,
    /// Why it cannot be looked at, if it cannot.
    trouble: Option<String>,
}

impl RuleShown {
    /// What the rule is called.
    pub fn name(&self) -> &str {
        &self.rule.name
    }
}

/// What is asked for when somebody wants quiet.
pub(crate) struct SilenceRequest {
    pub rule: Option<String>,
    pub labels: control::alerts::Labels,
    pub lasts: Duration,
    pub why: String,
}

/// The alerts of a node.
pub(crate) struct AlertService {
    alerts: Mutex<Alerts>,
    troubles: Mutex<Troubles>,
    expressions: RwLock<Arc<Expressions>>,
    look_every: watch::Sender<Duration>,
    silences: SilenceStore,
    mailboxes: Vec<Mailbox>,
    delivering: Mutex<Vec<JoinHandle<()>>>,
    counters: AlertCounters,
    clock: Arc<dyn Clock>,
    data: PathBuf,
    events: Arc<Events>,
    /// Of which alerts an event told, and since when they fire.
    told: Mutex<HashMap<String, u64>>,
    /// Tells the notices of this process from those of others.
    run: String,
}

impl AlertService {
    /// Alerts as planned. Receivers are served from now on, and nothing is looked at yet.
    pub fn new(
        plan: Plan,
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        data: PathBuf,
        events: Arc<Events>,
    ) -> Self {
        let Plan {
            rules,
            expressions,
            carriers,
            settings,
        } = plan;
        let counters = AlertCounters::default();
        let retry = Retry::of(&settings);
        let opened = carriers.into_iter().map(|(shown, carrier)| {
            let receiver = Receiver::new(shown, carrier, counters.clone(), clock.clone());
            Mailbox::open(receiver, retry, settings.waiting_notices_max)
        });
        let (mailboxes, delivering): (Vec<_>, Vec<_>) = opened.unzip();
        Self {
            alerts: Mutex::new(Alerts::new(rules, timing(&settings))),
            troubles: Mutex::default(),
            expressions: RwLock::new(Arc::new(expressions)),
            look_every: watch::Sender::new(Duration::from_millis(settings.look_every_ms)),
            silences: SilenceStore::new(bus),
            mailboxes,
            delivering: Mutex::new(delivering),
            counters,
            clock,
            data,
            events,
            told: Mutex::default(),
            run: run_name(),
        }
    }

    /// From now on these rules hold, and this often is looked. Who is told, and how, stays.
    pub fn change(&self, plan: Plan) {
        let look_every = Duration::from_millis(plan.settings.look_every_ms);
        *self.expressions.write() = Arc::new(plan.expressions);
        self.alerts
            .lock()
            .set_rules(plan.rules, timing(&plan.settings));
        self.look_every.send_replace(look_every);
    }

    /// What it counts.
    pub fn counters(&self) -> &AlertCounters {
        &self.counters
    }

    /// What the node is called in notices.
    pub fn node(&self) -> &str {
        self.events.node()
    }

    /// Looks at regular intervals, until the node stops.
    pub async fn watch(self: Arc<Self>, running: Arc<Running>, mut stopped: watch::Receiver<bool>) {
        let mut look_every = self.look_every.subscribe();
        let mut ticks = ticks(*look_every.borrow_and_update());
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                Ok(()) = look_every.changed() => {
                    ticks = self::ticks(*look_every.borrow_and_update());
                    continue;
                }
                () = http::stopped(&mut stopped) => break,
            }
            self.look(&running).await;
        }
        for delivering in self.delivering.lock().drain(..) {
            delivering.abort();
        }
    }

    async fn look(self: &Arc<Self>, running: &Arc<Running>) {
        let seeing = {
            let (this, running) = (self.clone(), running.clone());
            let (now, expressions) = (self.clock.now(), self.expressions.read().clone());
            tokio::task::spawn_blocking(move || {
                observe::observe(&running, &this.data, &expressions, now)
            })
        };
        let (seen, journal, silences) = tokio::join!(
            seeing,
            observe::journal(running),
            self.silences.read(SILENCES_TIMEOUT),
        );
        let (mut seen, troubles) = match seen {
            Ok(seen) => seen,
            Err(error) => return tracing::error!(%error, "looking for alerts broke off"),
        };
        seen.journal = journal;
        self.note_troubles(troubles);
        let notices = {
            let mut alerts = self.alerts.lock();
            match silences {
                Ok(silences) => alerts.set_silences(silences),
                Err(error) => tracing::debug!(%error, "the silences cannot be read now"),
            }
            let notices = alerts.step(&seen, self.clock.now());
            self.counters.set_firing(alerts.firing());
            notices
        };
        for notice in notices {
            self.send(&notice);
        }
    }

    /// Says once what is wrong with an expression.
    fn note_troubles(&self, troubles: Troubles) {
        let mut known = self.troubles.lock();
        for (rule, trouble) in &troubles {
            if known.get(rule) != Some(trouble) {
                tracing::warn!(rule, trouble, "an alert rule cannot be looked at");
            }
        }
        *known = troubles;
    }

    fn send(&self, notice: &Notice) {
        let letter = Letter::of(notice, self.node(), self.key(notice.number));
        for alert in &notice.firing {
            tracing::warn!(rule = notice.rule, detail = alert.detail, "alert");
            self.tell_once(alert);
        }
        for alert in &notice.recovered {
            tracing::info!(rule = notice.rule, detail = alert.detail, "alert recovered");
            self.told.lock().remove(&about(alert));
            self.tell("recovered", alert);
        }
        let letter = Arc::new(letter);
        for mailbox in &self.mailboxes {
            mailbox.put(&letter);
        }
    }

    /// A notice also names what was told before; that is no event.
    fn tell_once(&self, alert: &Alert) {
        let fired_at = alert.fired_at_ms.unwrap_or_default();
        let mut told = self.told.lock();
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        if told.insert(about(alert), fired_at) != Some(fired_at) {
            drop(told);
            self.tell("fired", alert);
        }
    }

    fn tell(&self, event: &str, alert: &Alert) {
        let event = Event::new(kind::ALERT, event)
            .with("rule", alert.rule.as_str())
            .with("severity", serde_json::json!(alert.severity))
            .with("labels", serde_json::json!(alert.labels))
            .with_text("detail", &alert.detail);
        let stage = alert.labels.get("stage").map_or("", String::as_str);
        let flow = stage.split_once('/').map_or("", |(flow, _)| flow);
        self.events
            .tell(event.with_text("flow", flow).with_text("stage", stage));
    }

    fn tell_silence(&self, event: &str, silence: &Silence) {
        let event = Event::new(kind::SILENCE, event)
            .with("id", silence.id)
            .with("rule", silence.rule.clone())
            .with("labels", serde_json::json!(silence.labels))
            .with("until_ms", silence.until_ms);
        self.events.tell(event.with_text("why", &silence.why));
    }

    fn key(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// All alerts that are pending, firing or silenced, and who is told.
    pub fn seen(&self) -> AlertsSeen {
        let receivers = self.mailboxes.iter();
        let receivers = receivers.map(|mailbox| mailbox.receiver.shown()).collect();
        let alerts = self.alerts.lock();
        AlertsSeen {
            alerts: alerts.list(self.clock.now()),
            left_out: alerts.left_out(),
            receivers,
        }
    }

    /// All rules.
    pub fn rules(&self) -> Vec<RuleShown> {
        let troubles = self.troubles.lock().clone();
        let alerts = self.alerts.lock();
        let shown = alerts.rules().map(|rule| RuleShown {
            trouble: troubles.get(&rule.name).cloned(),
            rule: rule.clone(),
        });
        shown.collect()
    }

    /// All silences.
    pub async fn silences(&self) -> Result<Vec<Silence>, BusError> {
        let silences = self.silences.read(SILENCES_TIMEOUT).await?;
        Ok(silences.list(self.clock.now()).cloned().collect())
    }

    /// From now on some alerts are not told, on all nodes that share the bus.
    pub async fn silence(
        &self,
        request: &SilenceRequest,
    ) -> Result<Result<Silence, SilenceError>, BusError> {
        let now = self.clock.now();
        let silence = Silence {
            id: 0,
            rule: request.rule.clone(),
            labels: request.labels.clone(),
            since_ms: now.as_millis(),
            until_ms: (now + request.lasts).as_millis(),
            why: request.why.clone(),
        };
        let change = |all: &mut control::alerts::Silences| all.add(silence.clone(), now);
        let (added, silences) = self.silences.change(change).await?;
        self.alerts.lock().set_silences(silences);
        if let Ok(silence) = &added {
            self.tell_silence("begun", silence);
        }
        Ok(added)
    }

    /// Ends a silence; gives it, if it was there.
    pub async fn unsilence(&self, id: u64) -> Result<Option<Silence>, BusError> {
        let now: Timestamp = self.clock.now();
        let change = |all: &mut control::alerts::Silences| all.remove(id, now);
        let (removed, silences) = self.silences.change(change).await?;
        self.alerts.lock().set_silences(silences);
        if let Some(silence) = &removed {
            self.tell_silence("ended", silence);
        }
        Ok(removed)
    }

    /// Sends a test to every receiver, once, and says what came of it.
    pub async fn test(&self) -> Vec<Tested> {
        let at_ms = self.clock.now().as_millis();
        let key = format!("{}-test-{at_ms}", self.run);
        let letter = Arc::new(Letter::test(self.node(), key, at_ms));
        let mut testing = Vec::new();
        for mailbox in &self.mailboxes {
            let (receiver, letter) = (mailbox.receiver.clone(), letter.clone());
            testing.push(tokio::spawn(async move { receiver.test(letter).await }));
        }
        let mut tested = Vec::new();
        for (test, mailbox) in testing.into_iter().zip(&self.mailboxes) {
            tested.push(test.await.unwrap_or_else(|error| Tested {
                receiver: mailbox.receiver.shown().receiver,
                sent: false,
                failure: Some(format!("the test broke off: {error}")),
            }));
        }
        tested
    }
}

/// What tells alerts apart.
fn about(alert: &Alert) -> String {
    format!("{} {:?}", alert.rule, alert.labels)
}

fn timing(settings: &AlertSettings) -> control::alerts::Settings {
    control::alerts::Settings {
        group_wait: Duration::from_secs(settings.group_wait_seconds),
        repeat_every: Duration::from_secs(settings.repeat_seconds),
        ..control::alerts::Settings::default()
    }
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn run_name() -> String {
    let mut random = [0_u8; RUN_BYTES];
    if getrandom::fill(&mut random).is_err() {
        // Only one notice has to be told from another.
        random = fastrand::u64(..).to_le_bytes();
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
