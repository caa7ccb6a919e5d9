//! Errors as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use broker::{CommitError, PublishError};
use bus::BusError;
use flows::document::Problems;
use journal::{AppendError, JournalFailed};
use runtime::{AskError, SendError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::desk::{Refusal, RefusalKind};

/// What went wrong, for people and programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// What kind of problem it is, for programs: `urn:hivewire:…`.
    #[serde(rename = "type")]
    kind: Box<str>,
    /// What kind of problem it is, for people.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What happened and what to do.
    detail: String,
    /// How many messages of a batch were taken in before this one was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<usize>,
    /// Which check refused a deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'static str>,
    /// Where in the arguments of a deployment the mistake is, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<Box<str>>,
    /// What is wrong with a flow document.
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Box<Problems>>,
}

impl Problem {
    fn new(status: StatusCode, kind: &str, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:hivewire:{kind}").into(),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            accepted: None,
            check: None,
            pointer: None,
            problems: None,
        }
    }

    pub fn accepted(mut self, messages: usize) -> Self {
        self.accepted = Some(messages);
        self
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: &str) -> Self {
        self.detail = format!("{}; {hint}", self.detail);
        self
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        let status = StatusCode::BAD_REQUEST;
        Self::new(
            status,
            "bad-request",
            "The request cannot be understood",
            detail,
        )
    }

    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "token-needed",
            "A token is needed",
            "send the header `Authorization: Bearer TOKEN`; the token lies in the file `token` of the data folder",
        )
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not from there", detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Not with this method",
            "the path exists, but not for this method: see the header Allow",
        )
    }

    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "conflict",
            "Not possible here",
            detail,
        )
    }

    /// What is there is not what the request expects.
    pub fn changed(detail: impl Into<String>) -> Self {
        let status = StatusCode::PRECONDITION_FAILED;
        Self::new(status, "changed", "Something else is there", detail)
    }

    /// An `Idempotency-Key` came before with another request.
    pub fn key_reused(detail: impl Into<String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::new(
            status,
            "key-reused",
            "The key belongs to another request",
            detail,
        )
    }

    pub fn too_slow(detail: impl Into<String>) -> Self {
        let status = StatusCode::REQUEST_TIMEOUT;
        Self::new(status, "too-slow", "The request took too long", detail)
    }

    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "Too large",
            detail,
        )
    }

    pub fn not_ready(detail: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "not-ready", "Not ready", detail)
    }

    pub fn full(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "full", "No room", detail)
    }

    /// The outcome is unknown: the message was taken in, and the disk has not confirmed it.
    pub fn unconfirmed(detail: impl Into<String>) -> Self {
        let status = StatusCode::GATEWAY_TIMEOUT;
        Self::new(status, "unconfirmed", "Not confirmed by the disk", detail)
    }

    /// Nobody answered a question in time.
    pub fn no_reply(detail: impl Into<String>) -> Self {
        let status = StatusCode::GATEWAY_TIMEOUT;
        Self::new(status, "no-reply", "No reply", detail)
    }

    /// Whoever was asked is done with the question and gave no answer.
    pub fn gave_no_answer(detail: impl Into<String>) -> Self {
        let status = StatusCode::BAD_GATEWAY;
        Self::new(status, "no-answer", "No answer will come", detail)
    }

    /// A deployment was refused, by this check. Whatever ran before goes on.
    pub fn not_deployed(check: &'static str, detail: impl Into<String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let problem = Self::new(status, "not-deployed", "Not deployed", detail);
        Self {
            check: Some(check),
            ..problem
        }
    }

    /// A flow document makes no sense. Nothing was touched.
    pub fn not_sound(problems: Problems) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let detail = format!("the document was refused, and nothing was touched:\n{problems}");
        let problem = Self::new(status, "not-sound", "The document makes no sense", detail);
        Self {
            problems: Some(Box::new(problems)),
            ..problem
        }
    }

    /// The arguments of a deployment are wrong there.
    pub fn at(mut self, pointer: String) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    /// A component cannot be a plug-in.
    pub fn unfit(detail: impl Into<String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::new(status, "unfit", "Not a plug-in", detail)
    }

    /// Another repository does not serve.
    pub fn bad_repository(detail: impl Into<String>) -> Self {
        let status = StatusCode::BAD_GATEWAY;
        Self::new(status, "repository", "A repository does not serve", detail)
    }

    pub fn internal(detail: impl Into<String>) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "internal", "Something broke here", detail)
    }
}

impl From<AppendError> for Problem {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::DiskFull { .. } => Self::full(error.to_string()),
            AppendError::TooLarge { .. } => Self::too_large(error.to_string()),
            AppendError::Failed(failed) => failed.into(),
            AppendError::NotReady => Self::not_ready("the disk is busy: try again in a moment"),
        }
    }
}

impl From<JournalFailed> for Problem {
    fn from(error: JournalFailed) -> Self {
        Self::not_ready(error.to_string())
    }
}

impl From<PublishError> for Problem {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Full { .. } | PublishError::Names(_) => Self::full(error.to_string()),
            PublishError::Journal(error) => error.into(),
        }
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Send(error) => error.into(),
            other => Self::conflict(other.to_string()),
        }
    }
}

impl From<BusError> for Problem {
    fn from(error: BusError) -> Self {
        let detail = error.to_string();
        match error {
            BusError::Full { .. } => Self::full(detail),
            BusError::InDoubt { .. } => Self::unconfirmed(detail),
            BusError::Refused { .. } | BusError::Unsupported { .. } => Self::conflict(detail),
            BusError::Timeout { .. }
            | BusError::Stopped { .. }
            | BusError::NotHeld { .. }
            | BusError::Fenced { .. } => Self::not_ready(detail),
        }
    }
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NoRoom(reason) => Self::full(reason),
            SendError::Bus { error, .. } => error.into(),
        }
    }
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        let detail = error.to_string();
        match error {
            AskError::Send(error) => error.into(),
            AskError::TimedOut { .. } => Self::no_reply(detail),
            AskError::NoAnswer { .. } => Self::gave_no_answer(detail),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.detail;
        match refusal.kind {
            RefusalKind::Bad => Self::bad_request(detail),
            RefusalKind::Unknown => Self::not_found(detail),
            RefusalKind::Conflict => Self::conflict(detail),
            RefusalKind::Busy => Self::not_ready(detail),
            RefusalKind::Late => Self::no_reply(detail),
            RefusalKind::Failed => Self::internal(detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, content_type);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.accepted.is_some_and(|messages| messages > 0) {
            response.extensions_mut().insert(HasHappened);
        }
        response
    }
}

/// Marks the answer of a request that was refused after some of it was done.
#[derive(Clone, Copy, Debug)]
pub(super) struct HasHappened;
