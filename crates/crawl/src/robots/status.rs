//! What follows from how the fetch of a `robots.txt` went.

use super::Robots;

/// How many redirects are followed to a `robots.txt`.
pub const REDIRECTS_MAX: u32 = 5;

/// What follows from how the fetch of a `robots.txt` went (RFC 9309, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfStatus {
    /// The body is the file.
    Parse,
    /// There is another place to look at.
    Follow,
    /// There is no file, so everything is allowed.
    AllowAll,
    /// Nobody knows what the file says, so nothing is allowed until it could be fetched.
    DisallowAllForNow,
}

impl Robots {
    /// What follows from this status, after so many redirects were followed; no status means that there was no answer.
    pub fn of_status(status: Option<u16>, redirects: u32) -> OfStatus {
        match status {
            Some(200..=299) => OfStatus::Parse,
            Some(300..=399) if redirects < REDIRECTS_MAX => OfStatus::Follow,
            // The server only says "not so fast", which is no permission. The RFC leaves the choice.
            Some(429) => OfStatus::DisallowAllForNow,
            Some(300..=499) => OfStatus::AllowAll,
            _ => OfStatus::DisallowAllForNow,
        }
    }
}
