//! How politely one host is asked: a state machine without clock and network.
//!
//! Whoever fetches asks [`Pace::may_start`] first, and says what happened. Times are milliseconds since 1970; a delay is what lies
//! between the starts of two requests. There may be a hundred thousand hosts, so a [`Pace`] is small, and the
//! [`PaceRules`], which are the same for all, are handed in.
//!
//! ```
//! use crawl::pace::{MayStart, Pace, PaceRules};
//!
//! let rules = PaceRules::default();
//! let mut host = Pace::new();
//! assert_eq!(host.may_start(1_000, &rules), MayStart::Now);
//! host.started(1_000);
//! assert_eq!(host.may_start(1_001, &rules), MayStart::AfterAnAnswer);
//! host.answered(1_400, 400, 200, None, &rules);
//! assert_eq!(host.may_start(1_401, &rules), MayStart::NotBefore(1_800));
//! ```
//!
//! What it deliberately does not do: it keeps no queue and wakes nobody.

mod retry_after;
mod rules;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use retry_after::retry_after;
pub use rules::{Delay, PaceRules};

/// How often a delay can be doubled.
const SLOWNESS_MAX: u8 = 20;
/// How many good answers in a row make a host that was slowed down one step faster.
const RECOVERY_ANSWERS: u8 = 5;
/// How much a new answer counts in the smoothed time: one part of so many.
const SMOOTHING_PARTS: u64 = 4;

/// Whether a request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayStart {
    /// It may.
    Now,
    /// Not before this time.
    NotBefore(u64),
    /// Not before one of those that are under way was answered or failed.
    AfterAnAnswer,
}

/// What is known about one host. It can be kept and read back: see [`Pace::taken_over`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// When the last request started; 0 if none did.
    started_at: u64,
    /// The same before those requests that may not be made after all.
    started_before: u64,
    /// Before this, nothing starts: the host asked for a break.
    blocked_until: u64,
    /// When the host was slowed down last.
    slowed_at: u64,
    /// How long answers take, smoothed; 0 if there was none.
    answer_ms: u32,
    /// What the host's `robots.txt` asks for.
    crawl_delay_ms: u32,
    /// How many requests are under way.
    under_way: u16,
    /// How often the delay is doubled.
    slowness: u8,
    /// How many good answers there were since then.
    good_answers: u8,
}

impl Pace {
    /// A host that nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// To be called by a new owner of the host: another one may have asked it a moment ago, so the first request waits a full
    /// delay. What was under way is nothing of ours any more.
    pub fn taken_over(&mut self, now: u64, rules: &PaceRules) {
        self.under_way = 0;
        (self.started_at, self.started_before) = (now, now);
        self.correct_clock(now, rules);
    }

    /// What the host's `robots.txt` asks for.
    pub fn set_crawl_delay(&mut self, delay: Option<Duration>) {
        let ms = delay.unwrap_or_default().as_millis();
        self.crawl_delay_ms = u32::try_from(ms).unwrap_or(u32::MAX);
    }

    /// Whether a request may start now.
    pub fn may_start(&mut self, now: u64, rules: &PaceRules) -> MayStart {
        self.correct_clock(now, rules);
        if self.under_way >= rules.connections_per_host {
            return MayStart::AfterAnAnswer;
        }
        let paced = match self.started_at {
            0 => 0,
            started_at => started_at + self.delay_ms(rules),
        };
        match paced.max(self.blocked_until) {
            time if time <= now => MayStart::Now,
            time => MayStart::NotBefore(time),
        }
    }

    /// A request started.
    pub fn started(&mut self, now: u64) {
        if self.under_way == 0 {
            self.started_before = self.started_at;
        }
        self.started_at = now;
        self.under_way = self.under_way.saturating_add(1);
    }

    /// A request was answered after so long. `retry_after` is what the answer asks for, if it does: see [`retry_after()`].
    pub fn answered(
        &mut self,
        now: u64,
        took_ms: u64,
        status: u16,
        retry_after: Option<Duration>,
        rules: &PaceRules,
    ) {
        self.under_way = self.under_way.saturating_sub(1);
        self.started_before = self.started_at;
        // An error is often answered at once, which says nothing about how busy the host is.
        if status < 500 || took_ms > u64::from(self.answer_ms) {
            self.smooth(took_ms);
        }
        match status {
            429 | 503 => self.slow_down(now, took_ms, retry_after, rules),
            500.. => self.good_answers = 0,
            _ => self.recover(),
        }
    }

    /// A request failed after so long, without an answer.
    pub fn failed(&mut self, now: u64, took_ms: u64, rules: &PaceRules) {
        self.under_way = self.under_way.saturating_sub(1);
        self.started_before = self.started_at;
        self.slow_down(now, took_ms, None, rules);
    }

    /// A request that was to start was not made after all, so it need not be waited for.
    pub fn not_made(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.started_at = self.started_before;
        }
    }

    /// How many requests are under way.
    pub fn under_way(&self) -> u16 {
        self.under_way
    }

    /// What lies between the starts of two requests at least, as things are.
    pub fn delay_ms(&self, rules: &PaceRules) -> u64 {
        let usual = match rules.delay {
            Delay::Unlimited => 0,
            Delay::FixedMs(ms) => u64::from(ms),
            Delay::Adaptive => {
                let wanted = f64::from(self.answer_ms) * rules.factor;
                (wanted.round() as u64).clamp(rules.delay_min_ms, rules.delay_max_ms)
            }
        };
        let slowed = match self.slowness {
            0 => usual,
            slowness => {
                let doubled = usual.max(rules.delay_min_ms).saturating_mul(1 << slowness);
                doubled.min(rules.delay_max_ms.max(usual))
            }
        };
        match rules.crawl_delay_obeyed {
            true => slowed.max(u64::from(self.crawl_delay_ms)),
            false => slowed,
        }
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
        now: u64,
        took_ms: u64,
        retry_after: Option<Duration>,
        rules: &PaceRules,
    ) {
        // Of many requests that were under way together, only the first counts: the others knew nothing of it.
        if now.saturating_sub(took_ms) >= self.slowed_at {
            self.slowness = (self.slowness + 1).min(SLOWNESS_MAX);
            self.slowed_at = now;
        }
        self.good_answers = 0;
        let wait = match retry_after {
            Some(wait) => u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            None => rules
                .back_off_min_ms
                .saturating_mul(1 << (self.slowness.max(1) - 1)),
        };
        let wait = wait.clamp(rules.back_off_min_ms, rules.back_off_max_ms);
        self.blocked_until = self.blocked_until.max(now + wait);
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
    fn correct_clock(&mut self, now: u64, rules: &PaceRules) {
        self.started_at = self.started_at.min(now);
        self.started_before = self.started_before.min(now);
        self.slowed_at = self.slowed_at.min(now);
        self.blocked_until = self
            .blocked_until
            .min(now.saturating_add(rules.back_off_max_ms));
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
