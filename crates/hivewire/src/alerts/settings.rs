//! What the user can set about alerts.

use std::path::PathBuf;

use control::alerts::Severity;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// What is watched, and who is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlertSettings {
    /// Whether the rules that come with Hivewire hold.
    pub built_in: bool,
    /// How often is looked.
    pub look_every_ms: u64,
    /// After the first alert of a rule, others are waited for this long, so that they share a notice.
    pub group_wait_seconds: u64,
    /// What still fires is told again after this time.
    pub repeat_seconds: u64,
    /// How often a notice is tried to be sent to a receiver.
    pub tries_max: u32,
    /// How long to wait after the first try; it doubles with each.
    pub retry_ms_min: u64,
    /// How long to wait between tries at most.
    pub retry_ms_max: u64,
    /// How many notices may wait for a receiver.
    pub waiting_notices_max: usize,
    /// Rules, besides or in place of those that come with Hivewire.
    pub rules: Vec<RuleSettings>,
    /// Where notices are posted.
    pub webhooks: Vec<WebhookSettings>,
    /// Where notices are mailed.
    pub emails: Vec<EmailSettings>,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            built_in: true,
            look_every_ms: 5_000,
            group_wait_seconds: 10,
            repeat_seconds: 4 * 3_600,
            tries_max: 5,
            retry_ms_min: 1_000,
            retry_ms_max: 60_000,
            waiting_notices_max: 100,
            rules: Vec::new(),
            webhooks: Vec::new(),
            emails: Vec::new(),
        }
    }
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// Nodes that are gone.
    NodeGone,
    /// Stages whose workers are restarted often.
    StageRestarts,
    /// Stages that do not run.
    StageFailed,
    /// Stages that stand still.
    StageStands,
    /// New dead letters.
    DeadLetters,
    /// Queues whose messages wait for long.
    QueueAge,
    /// The room on the disk.
    Disk,
    /// The journal.
    Journal,
    /// An expression over metrics.
    Expression,
}

/// A rule as it is written: what is not said is as in the rule of the same name, or else of the same
/// kind, that comes with Hivewire.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    /// Its name.
    pub name: String,
    /// What it looks at.
    #[serde(default)]
    pub kind: Option<RuleKind>,
    /// Whether it holds.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How bad it is.
    #[serde(default)]
    pub severity: Option<Severity>,
    /// How long it has to be wrong before somebody is told.
    #[serde(default)]
    pub for_seconds: Option<u64>,
    /// How many restarts or dead letters are fine.
    #[serde(default)]
    pub more_than: Option<u64>,
    /// Within which time.
    #[serde(default)]
    pub within_seconds: Option<u64>,
    /// Which queues.
    #[serde(default)]
    pub queues: Option<String>,
    /// How long a message may wait.
    #[serde(default)]
    pub older_than_seconds: Option<u64>,
    /// How much room the disk has to have.
    #[serde(default)]
    pub free_percent_min: Option<f64>,
    /// What must not be true.
    #[serde(default)]
    pub expression: Option<String>,
}

impl RuleSettings {
    /// A rule of this name that says nothing else.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: None,
            enabled: true,
            severity: None,
            for_seconds: None,
            more_than: None,
            within_seconds: None,
            queues: None,
            older_than_seconds: None,
            free_percent_min: None,
            expression: None,
        }
    }
}

/// Where notices are posted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// The address.
    pub url: String,
    /// What is sent as the bearer's token.
    #[serde(default)]
    pub bearer: Option<Secret>,
    /// Who vouches for the certificate, if no public authority does.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// How long one try may take.
    #[serde(default = "ten")]
    pub timeout_seconds: u64,
}

impl WebhookSettings {
    /// A webhook at this address.
    pub fn at(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            bearer: None,
            authority: None,
            timeout_seconds: ten(),
        }
    }
}

/// How a mail server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// It begins in the clear and must be encrypted before anything is said.
    #[default]
    Starttls,
    /// It is encrypted from the beginning.
    Tls,
    /// It is not encrypted.
    None,
}

impl MailTls {
    /// Where servers listen for it.
    pub const fn port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Tls => 465,
            Self::None => 25,
        }
    }
}

/// Where notices are mailed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmailSettings {
    /// The mail server.
    pub host: String,
    /// Its port.
    #[serde(default)]
    pub port: Option<u16>,
    /// How it is spoken to.
    #[serde(default)]
    pub tls: MailTls,
    /// Allows `none` with a server on another machine.
    #[serde(default)]
    pub allow_plain: bool,
    /// Who vouches for the certificate, if no public authority does.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// The login.
    #[serde(default)]
    pub user: Option<String>,
    /// Its password.
    #[serde(default)]
    pub password: Option<Secret>,
    /// Who it is from.
    pub from: String,
    /// Who gets it.
    pub to: Vec<String>,
    /// How long one step may take.
    #[serde(default = "ten")]
    pub timeout_seconds: u64,
}

impl EmailSettings {
    /// Mail over this server, from nobody to nobody.
    pub fn over(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            port: None,
            tls: MailTls::default(),
            allow_plain: false,
            authority: None,
            user: None,
            password: None,
            from: String::new(),
            to: Vec::new(),
            timeout_seconds: ten(),
        }
    }
}

const fn yes() -> bool {
    true
}

const fn ten() -> u64 {
    10
}
