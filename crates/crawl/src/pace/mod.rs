//! How politely one host is asked: a state machine without clock and network.
//!
//! Whoever fetches asks [`Pace::may_start`] first, and says what happened. Times are milliseconds since 1970; a delay is what lies
//! between the starts of two requests. There may be a hundred thousand hosts, so a [`Pace`] is small, and the
//! [`PaceRule`], which is the same for all, is handed in.
//!
//! ```
//! use std::time::Duration;
//!
//! use crawl::pace::{AFTER_AN_ANSWER, Pace, PaceRule};
//!
//! let rule = PaceRule::default();
//! let mut host = Pace::new();
//! assert!(host.may_start(&rule, 1_000) <= 1_000);
//! host.started(&rule, 1_000);
//! assert_eq!(host.may_start(&rule, 1_001), AFTER_AN_ANSWER);
//! host.ended(&rule, 1_400, Duration::from_millis(400), Some(200), None);
//! assert_eq!(host.may_start(&rule, 1_401), 1_800);
//! ```
//!
//! What it deliberately does not do: it keeps no queue and wakes nobody.

mod retry_after;
mod rules;

use std::time::Duration;

pub use retry_after::retry_after;
pub use rules::PaceRule;

use rules::ms;

/// The time at which a request may start if as many are under way as may be: it is known only after one of them has ended.
pub const AFTER_AN_ANSWER: u64 = u64::MAX;

/// How often a delay can be doubled.
const SLOWNESS_MAX: u8 = 20;
/// How many good answers in a row make a host that was slowed down one step faster.
const RECOVERY_ANSWERS: u8 = 5;
/// How much a new answer counts in the smoothed time: one part of so many.
const SMOOTHING_PARTS: u64 = 4;

/// What is known about one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// When the last request started; 0 if none did.
    started_at: u64,
    /// What that was before, if the last one is under way alone.
    started_before: Option<u64>,
    /// Before this, nothing starts: the host asked for a break.
    blocked_until: u64,
    /// When the host was slowed down last.
    slowed_at: u64,
    /// The delay as it was worked out last.
    delay_ms: u32,
    /// What the host's `robots.txt` asks for.
    crawl_delay_ms: u32,
    /// How long answers take, smoothed; 0 if there was none.
    answer_ms: u32,
    /// How many requests are under way.
    under_way: u32,
    /// How often the delay is doubled.
    slowness: u8,
    /// How many good answers there were since then.
    good_answers: u8,
    /// Whether a request has ended. Before that nobody knows what its `robots.txt` asks for, so there is one at a time.
    has_ended: bool,
}

impl Pace {
    /// A host that nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A host that another owner may have asked a moment ago: the first request waits a full delay.
    pub fn taken_over(rule: &PaceRule, now_ms: u64) -> Self {
        let mut pace = Self {
            started_at: now_ms,
            ..Self::default()
        };
        pace.work_out_delay(rule);
        pace
    }

    /// What the host's `robots.txt` asks for. It counts if it is longer than the delay is otherwise.
    pub fn set_crawl_delay(&mut self, delay: Duration) {
        self.crawl_delay_ms = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
    }

    /// When a request may start: now if that is not later than now, and at [`AFTER_AN_ANSWER`] if it cannot be told yet.
    pub fn may_start(&mut self, rule: &PaceRule, now_ms: u64) -> u64 {
        self.correct_clock(rule, now_ms);
        self.work_out_delay(rule);
        let most = match self.has_ended {
            true => rule.connections_per_host(),
            false => 1,
        };
        match self.under_way >= most {
            true => AFTER_AN_ANSWER,
            false => self.next_start_ms(),
        }
    }

    /// When a request may start as far as the delay is concerned, as it was worked out last.
    pub fn next_start_ms(&self) -> u64 {
        let delay_ms = u64::from(self.delay_ms.max(self.crawl_delay_ms));
        let paced = match self.started_at {
            0 => 0,
            started_at => started_at + delay_ms,
        };
        paced.max(self.blocked_until)
    }

    /// A request started.
    pub fn started(&mut self, rule: &PaceRule, now_ms: u64) {
        self.started_before = (self.under_way == 0).then_some(self.started_at);
        self.started_at = now_ms;
        self.under_way = self.under_way.saturating_add(1);
        self.work_out_delay(rule);
    }

    /// What started was not asked for after all, because something refused it before. Nothing has to wait for it if it was alone;
    /// otherwise nobody knows which one it was.
    pub fn cancelled(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.has_ended = true;
        if let Some(before) = self.started_before.take() {
            self.started_at = before;
        }
    }

    /// A request has ended after so long, with this status or without an answer. `retry_after` is what the answer asks for, if it
    /// does: see [`retry_after()`].
    pub fn ended(
        &mut self,
        rule: &PaceRule,
        now_ms: u64,
        took: Duration,
        status: Option<u16>,
        retry_after: Option<Duration>,
    ) {
        self.under_way = self.under_way.saturating_sub(1);
        self.has_ended = true;
        self.started_before = None;
        let took_ms = in_ms(took);
        // An error is often answered at once, which says nothing about how busy the host is.
        if status.is_some_and(|status| status < 500 || took_ms > self.answer_ms.into()) {
            self.smooth(took_ms);
        }
        match status {
            None | Some(429 | 503) => self.slow_down(rule, now_ms, took_ms, retry_after),
            Some(500..) => self.good_answers = 0,
            Some(_) => self.recover(),
        }
        self.work_out_delay(rule);
    }

    /// What lies between the starts of two requests at least, as things are.
    fn work_out_delay(&mut self, rule: &PaceRule) {
        let (least, most) = (ms(rule.delay_min), ms(rule.delay_max));
        let usual = match (rule.unlimited, rule.delay) {
            (true, _) => 0,
            (false, Some(fixed)) => ms(fixed),
            (false, None) => {
                let wanted = f64::from(self.answer_ms) * rule.factor;
                (wanted.round() as u64).clamp(least, most)
            }
        };
        let delay_ms = match self.slowness {
            0 => usual,
            slowness => {
                let doubled = usual.max(least).saturating_mul(1 << slowness);
                doubled.min(most.max(usual))
            }
        };
        self.delay_ms = u32::try_from(delay_ms).unwrap_or(u32::MAX);
    }

    fn smooth(&mut self, took_ms: u64) {
        let (old, new) = (u64::from(self.answer_ms), took_ms.clamp(1, u32::MAX.into()));
        let smoothed = match old {
            0 => new,
            // Rounded towards the new one, or it would never be reached.
            _ if new > old => old + (new - old).div_ceil(SMOOTHING_PARTS),
            _ => old - (old - new).div_ceil(SMOOTHING_PARTS),
        };
        self.answer_ms = u32::try_from(smoothed).unwrap_or(u32::MAX);
    }

    fn slow_down(
        &mut self,
        rule: &PaceRule,
        now_ms: u64,
        took_ms: u64,
        retry_after: Option<Duration>,
    ) {
        // Of many requests that were under way together, only the first counts: the others knew nothing of it.
        if now_ms.saturating_sub(took_ms) >= self.slowed_at {
            self.slowness = (self.slowness + 1).min(SLOWNESS_MAX);
            self.slowed_at = now_ms;
        }
        self.good_answers = 0;
        let (least, most) = (ms(rule.back_off_min), ms(rule.back_off_max));
        let wait = match retry_after {
            Some(wait) => in_ms(wait),
            None => least.saturating_mul(1 << (self.slowness.max(1) - 1)),
        };
        self.blocked_until = self.blocked_until.max(now_ms + wait.clamp(least, most));
    }

    fn recover(&mut self) {
        if self.slowness == 0 {
            return;
        }
        self.good_answers += 1;
        if self.good_answers >= RECOVERY_ANSWERS {
            self.good_answers = 0;
            self.slowness -= 1;
        }
    }

    /// A clock that was set back must not make a host wait for years.
    fn correct_clock(&mut self, rule: &PaceRule, now_ms: u64) {
        self.started_at = self.started_at.min(now_ms);
        self.slowed_at = self.slowed_at.min(now_ms);
        let latest = now_ms.saturating_add(ms(rule.back_off_max));
        self.blocked_until = self.blocked_until.min(latest);
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
