//! Hosts and crawlers from seeds, and a judge who knows only what happened when.

use std::ops::Range;

use flows::plugins::Period;

use super::*;

const SEEDS: Range<u64> = 0..300;
const REQUESTS: usize = 200;

/// What happened, and when.
#[derive(Clone, Copy, Debug)]
enum Event {
    Started,
    /// With the time it took, unless there was no answer in the end, whether that was a complaint, and the break it asked for.
    Ended {
        started_at: u64,
        took_ms: Option<u64>,
        complaint: bool,
        retry_after: Option<u64>,
    },
    TakenOver,
}

/// What a crawler does with what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crawler {
    Obedient,
    /// Waits for answers, but not for delays.
    Impatient,
    /// Waits for delays, but not for answers.
    Greedy,
    /// Starts at once after a take-over.
    Forgetful,
}

struct Simulation {
    random: fastrand::Rng,
    rule: PaceRule,
    crawl_delay_ms: u64,
    now: u64,
    host: Pace,
    /// When what is under way will end, what it will have taken, and whether the host will ever see it.
    ends: Vec<(u64, u64, bool)>,
    requests: usize,
    log: Vec<(u64, Event)>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let rule = match random.u8(0..5) {
            0 => PaceRule::unlimited(),
            1 | 2 => PaceRule::fixed(Period::from_millis(random.u64(10..5_000))),
            _ => PaceRule {
                factor: random.f64() * 5.0,
                ..PaceRule::default()
            },
        };
        let rule = rule.with_connections(random.u32(1..5));
        rule.check().unwrap();
        let crawl_delay_ms = if random.bool() {
            random.u64(1..10_000)
        } else {
            0
        };
        let mut host = Pace::new();
        host.set_crawl_delay(Duration::from_millis(crawl_delay_ms));
        Self {
            random,
            rule,
            crawl_delay_ms,
            now: 1_700_000_000_000,
            host,
            ends: Vec::new(),
            requests: 0,
            log: Vec::new(),
        }
    }

    fn run(mut self, crawler: Crawler) -> Vec<String> {
        while self.requests < REQUESTS {
            self.end_what_is_due();
            if self.random.u8(..) == 0 {
                self.take_over(crawler);
            }
            self.step(crawler);
        }
        self.violations()
    }

    fn step(&mut self, crawler: Crawler) {
        let next_end = self.ends.iter().map(|(at, ..)| *at).min();
        let time = self.host.may_start(&self.rule, self.now);
        let ignored = match time {
            AFTER_AN_ANSWER => crawler == Crawler::Greedy,
            _ => crawler == Crawler::Impatient,
        };
        if ignored || time <= self.now {
            self.start();
        } else if time == AFTER_AN_ANSWER {
            self.now = next_end.expect("something is under way");
        } else {
            // Somebody may ask again before it is time.
            let asked_again = self.now + self.random.u64(1..=time - self.now);
            self.now = next_end.unwrap_or(u64::MAX).min(asked_again).max(self.now);
        }
    }

    fn start(&mut self) {
        self.host.started(&self.rule, self.now);
        let took_ms = self.random.u64(1..3_000);
        let is_asked = self.random.u8(0..8) > 0;
        if is_asked {
            self.requests += 1;
            self.log.push((self.now, Event::Started));
        }
        self.ends.push((self.now + took_ms, took_ms, is_asked));
        self.now += self.random.u64(0..2);
    }

    fn end_what_is_due(&mut self) {
        self.ends.sort_unstable();
        while self.ends.first().is_some_and(|(at, ..)| *at <= self.now) {
            match self.ends.remove(0) {
                (at, took_ms, true) => self.end(at, took_ms),
                (_, _, false) => self.host.cancelled(),
            }
        }
    }

    fn end(&mut self, at: u64, took_ms: u64) {
        let (status, asks_for_break) = match self.random.u8(0..20) {
            0 => (Some(429), true),
            1 => (Some(503), self.random.bool()),
            2 => (None, false),
            _ => (Some(200), false),
        };
        let retry_after = asks_for_break.then(|| self.random.u64(0..900_000));
        let wait = retry_after.map(Duration::from_millis);
        let took = Duration::from_millis(took_ms);
        self.host.ended(&self.rule, at, took, status, wait);
        let ended = Event::Ended {
            started_at: at - took_ms,
            took_ms: status.map(|_| took_ms),
            complaint: status != Some(200),
            retry_after,
        };
        self.log.push((at, ended));
    }

    /// Another owner, who knows nothing but what the file of robots says.
    fn take_over(&mut self, crawler: Crawler) {
        self.ends.clear();
        self.host = match crawler {
            Crawler::Forgetful => Pace::new(),
            _ => Pace::taken_over(&self.rule, self.now),
        };
        let crawl_delay = Duration::from_millis(self.crawl_delay_ms);
        self.host.set_crawl_delay(crawl_delay);
        self.log.push((self.now, Event::TakenOver));
    }

    /// What somebody who watches the host could complain about.
    fn violations(&self) -> Vec<String> {
        let mut judge = Judge::new(&self.rule, self.crawl_delay_ms);
        for (now, event) in &self.log {
            judge.sees(*now, *event);
        }
        judge.violations
    }
}

struct Judge<'r> {
    rule: &'r PaceRule,
    crawl_delay_ms: u64,
    last_start: Option<u64>,
    under_way: u32,
    /// The quickest answer that the present owner has seen.
    quickest_ms: Option<u64>,
    not_before: u64,
    complaints: u32,
    complained_at: u64,
    violations: Vec<String>,
}

impl<'r> Judge<'r> {
    fn new(rule: &'r PaceRule, crawl_delay_ms: u64) -> Self {
        Self {
            rule,
            crawl_delay_ms,
            last_start: None,
            under_way: 0,
            quickest_ms: None,
            not_before: 0,
            complaints: 0,
            complained_at: 0,
            violations: Vec::new(),
        }
    }

    /// No delay may be shorter: a smoothed time is never less than the least.
    fn least_delay(&self) -> u64 {
        let least = match (self.rule.is_unlimited(), self.rule.delay) {
            (true, _) => 0,
            (false, Some(fixed)) => ms(fixed),
            (false, None) => {
                let quickest = self.quickest_ms.unwrap_or(0) as f64 * self.rule.factor;
                (quickest as u64).clamp(ms(self.rule.delay_min), ms(self.rule.delay_max))
            }
        };
        least.max(self.crawl_delay_ms)
    }

    fn sees(&mut self, now: u64, event: Event) {
        match event {
            Event::Started => self.sees_start(now),
            Event::Ended {
                started_at,
                took_ms,
                complaint,
                retry_after,
            } => {
                self.under_way -= 1;
                self.quickest_ms = self.quickest_ms.into_iter().chain(took_ms).min();
                match complaint {
                    true => self.sees_complaint(now, started_at, retry_after),
                    false => self.complaints = 0,
                }
            }
            Event::TakenOver => {
                // The new owner may know nothing of what was before, but has to wait all the same.
                self.under_way = 0;
                self.quickest_ms = None;
                self.complaints = 0;
                self.not_before = now + self.least_delay();
            }
        }
    }

    fn sees_start(&mut self, now: u64) {
        let least = self.least_delay();
        if let Some(last) = self.last_start.filter(|last| now < last + least) {
            let gap = now - last;
            self.violations
                .push(format!("{gap} ms after the last one instead of {least}"));
        }
        if now < self.not_before {
            let early = self.not_before - now;
            self.violations
                .push(format!("{early} ms before the end of a break"));
        }
        self.last_start = Some(now);
        self.under_way += 1;
        if self.under_way > self.rule.connections_per_host() {
            self.violations.push(format!("{} at once", self.under_way));
        }
    }

    fn sees_complaint(&mut self, now: u64, started_at: u64, retry_after: Option<u64>) {
        if started_at >= self.complained_at {
            self.complaints += 1;
            self.complained_at = now;
        }
        let (least, most) = (ms(self.rule.back_off_min), ms(self.rule.back_off_max));
        let doubled = least << self.complaints.clamp(1, 12).saturating_sub(1);
        let wait = retry_after.unwrap_or(doubled).clamp(least, most);
        self.not_before = self.not_before.max(now + wait);
    }
}

fn found_out(crawler: Crawler) -> usize {
    let violations = |seed: u64| Simulation::new(seed).run(crawler).len();
    SEEDS.filter(|seed| violations(*seed) > 0).count()
}

#[test]
fn whoever_obeys_is_polite_to_every_host() {
    for seed in SEEDS {
        let violations = Simulation::new(seed).run(Crawler::Obedient);
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
}

#[test]
fn whoever_does_not_obey_is_found_out() {
    let seeds = SEEDS.count();
    // Without any limit and before the first answer there is nothing to disobey.
    assert!(found_out(Crawler::Impatient) > seeds * 9 / 10);
    assert!(found_out(Crawler::Greedy) > seeds / 4);
    assert!(found_out(Crawler::Forgetful) > seeds / 4);
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let violations = |seed: u64| Simulation::new(seed).run(Crawler::Impatient);
    assert_eq!(violations(7), violations(7));
}
