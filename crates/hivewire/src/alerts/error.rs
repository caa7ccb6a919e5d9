//! What can be wrong in what is set about alerts.

/// What is wrong in what is set about alerts.
#[derive(Debug, thiserror::Error)]
pub enum AlertError {
    /// A number makes no sense.
    #[error("`alerts.{key}` {problem}")]
    Setting {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A rule is none.
    #[error("the alert rule {name:?} {problem}")]
    Rule {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A webhook cannot be used.
    #[error("the webhook {shown} of `alerts.webhooks` {problem}")]
    Webhook {
        /// Where it leads, without what may be secret.
        shown: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A mail server cannot be used.
    #[error("the mail server {host:?} of `alerts.emails` {problem}")]
    Email {
        /// The server.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
}
