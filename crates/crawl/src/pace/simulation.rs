//! Hosts and crawlers from seeds, and a judge who knows only what happened when.

use std::ops::Range;

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
    rules: PaceRules,
    crawl_delay_ms: u64,
    now: u64,
    host: Pace,
    /// When what is under way will be answered, and what it will have taken.
    answers: Vec<(u64, u64)>,
    requests: usize,
    log: Vec<(u64, Event)>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let delay = match random.u8(0..3) {
            0 => Delay::FixedMs(random.u32(10..5_000)),
            1 => Delay::Unlimited,
            _ => Delay::Adaptive,
        };
        let rules = PaceRules {
            delay,
            factor: random.f64() * 5.0,
            connections_per_host: random.u16(1..5),
            ..PaceRules::default()
        };
        rules.check().unwrap();
        let crawl_delay_ms = if random.bool() {
            random.u64(1..10_000)
        } else {
            0
        };
        let mut host = Pace::new();
        host.set_crawl_delay(Some(Duration::from_millis(crawl_delay_ms)));
        Self {
            random,
            rules,
            crawl_delay_ms,
            now: 1_700_000_000_000,
            host,
            answers: Vec::new(),
            requests: 0,
            log: Vec::new(),
        }
    }

    fn run(mut self, crawler: Crawler) -> Vec<String> {
        while self.requests < REQUESTS {
            self.answer_what_is_due();
            if self.random.u8(..) == 0 {
                self.take_over(crawler);
            }
            self.step(crawler);
        }
        self.violations()
    }

    fn step(&mut self, crawler: Crawler) {
        let next_answer = self.answers.iter().map(|(at, _)| *at).min();
        let may_start = match (self.host.may_start(self.now, &self.rules), crawler) {
            (MayStart::NotBefore(_), Crawler::Impatient) => MayStart::Now,
            (MayStart::AfterAnAnswer, Crawler::Greedy) => MayStart::Now,
            (other, _) => other,
        };
        match may_start {
            MayStart::Now => {
                self.host.started(self.now);
                self.requests += 1;
                self.log.push((self.now, Event::Started));
                let took_ms = self.random.u64(1..3_000);
                self.answers.push((self.now + took_ms, took_ms));
                self.now += self.random.u64(0..2);
            }
            MayStart::NotBefore(time) => {
                assert!(time > self.now, "it may start, but is told to wait");
                // Somebody else may ask again before it is time.
                let asked_again = self.now + self.random.u64(1..=time - self.now);
                self.now = next_answer
                    .unwrap_or(u64::MAX)
                    .min(asked_again)
                    .max(self.now);
            }
            MayStart::AfterAnAnswer => self.now = next_answer.expect("something is under way"),
        }
    }

    fn answer_what_is_due(&mut self) {
        self.answers.sort_unstable();
        while self.answers.first().is_some_and(|(at, _)| *at <= self.now) {
            let (at, took_ms) = self.answers.remove(0);
            let kind = self.random.u8(0..20);
            let retry_after = (kind == 0).then(|| self.random.u64(0..900));
            match kind {
                0 | 1 => {
                    let wait = retry_after.map(Duration::from_secs);
                    let status = if self.random.bool() { 429 } else { 503 };
                    self.host.answered(at, took_ms, status, wait, &self.rules);
                }
                2 => self.host.failed(at, took_ms, &self.rules),
                _ => self.host.answered(at, took_ms, 200, None, &self.rules),
            }
            self.log.push((
                at,
                Event::Ended {
                    started_at: at - took_ms,
                    took_ms: (kind != 2).then_some(took_ms),
                    complaint: kind < 3,
                    retry_after: retry_after.map(|seconds| seconds * 1_000),
                },
            ));
        }
    }

    /// Another owner, who may know what the old one knew, or nothing but what the file of robots says.
    fn take_over(&mut self, crawler: Crawler) {
        self.answers.clear();
        if self.random.bool() {
            self.host = Pace::new();
            let crawl_delay = Duration::from_millis(self.crawl_delay_ms);
            self.host.set_crawl_delay(Some(crawl_delay));
        }
        if crawler == Crawler::Forgetful {
            self.host = Pace::new();
        } else {
            self.host.taken_over(self.now, &self.rules);
        }
        self.log.push((self.now, Event::TakenOver));
    }

    /// What somebody who watches the host could complain about.
    fn violations(&self) -> Vec<String> {
        let mut judge = Judge::new(&self.rules, self.crawl_delay_ms);
        for (now, event) in &self.log {
            judge.sees(*now, *event);
        }
        judge.violations
    }
}

struct Judge<'r> {
    rules: &'r PaceRules,
    crawl_delay_ms: u64,
    last_start: Option<u64>,
    under_way: u16,
    /// The quickest answer ever, and whether the present owner has seen any.
    quickest_ms: Option<u64>,
    owner_knows: bool,
    not_before: u64,
    complaints: u32,
    complained_at: u64,
    violations: Vec<String>,
}

impl<'r> Judge<'r> {
    fn new(rules: &'r PaceRules, crawl_delay_ms: u64) -> Self {
        Self {
            rules,
            crawl_delay_ms,
            last_start: None,
            under_way: 0,
            quickest_ms: None,
            owner_knows: false,
            not_before: 0,
            complaints: 0,
            complained_at: 0,
            violations: Vec::new(),
        }
    }

    /// No delay may be shorter: a smoothed time is never less than the least.
    fn least_delay(&self) -> u64 {
        let least = match self.rules.delay {
            Delay::Unlimited => 0,
            Delay::FixedMs(ms) => u64::from(ms),
            Delay::Adaptive => {
                let quickest = self.quickest_ms.filter(|_| self.owner_knows).unwrap_or(0);
                ((quickest as f64 * self.rules.factor) as u64)
                    .clamp(self.rules.delay_min_ms, self.rules.delay_max_ms)
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
                self.owner_knows |= took_ms.is_some();
                match complaint {
                    true => self.sees_complaint(now, started_at, retry_after),
                    false => self.complaints = 0,
                }
            }
            Event::TakenOver => {
                // The new owner may know nothing of what was before, but has to wait all the same.
                self.under_way = 0;
                self.owner_knows = false;
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
        if self.under_way > self.rules.connections_per_host {
            self.violations.push(format!("{} at once", self.under_way));
        }
    }

    fn sees_complaint(&mut self, now: u64, started_at: u64, retry_after: Option<u64>) {
        if started_at >= self.complained_at {
            self.complaints += 1;
            self.complained_at = now;
        }
        let (least, most) = (self.rules.back_off_min_ms, self.rules.back_off_max_ms);
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
    assert_eq!(found_out(Crawler::Impatient), seeds);
    assert!(found_out(Crawler::Greedy) > seeds / 2);
    assert!(found_out(Crawler::Forgetful) > seeds / 4);
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let violations = |seed: u64| Simulation::new(seed).run(Crawler::Impatient);
    assert_eq!(violations(7), violations(7));
}
