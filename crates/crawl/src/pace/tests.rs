//! Tests of single steps.

use super::*;

const SECOND: u64 = 1_000;

fn rule(text: &str) -> PaceRule {
    let rule: PaceRule = serde_json::from_str(text).unwrap();
    rule.check().unwrap();
    rule
}

/// A host that was asked at this time and answered so.
fn asked(host: &mut Pace, rule: &PaceRule, now: u64, took_ms: u64, status: u16) {
    host.started(rule, now);
    let took = Duration::from_millis(took_ms);
    host.ended(rule, now + took_ms, took, Some(status), None);
}

/// The delay, as seen by somebody who has just asked.
fn delay(host: &Pace, rule: &PaceRule) -> u64 {
    let (mut host, now) = (host.clone(), 1 << 50);
    host.started(rule, now);
    host.next_start_ms() - now
}

#[test]
fn an_adaptive_delay_follows_the_answers_within_its_limits() {
    let rule = PaceRule::default();
    let mut host = Pace::new();
    asked(&mut host, &rule, 1, 10, 200);
    assert_eq!(delay(&host, &rule), 250);
    for time in 1..100 {
        asked(&mut host, &rule, time * 100_000, 2_000, 200);
    }
    assert_eq!(delay(&host, &rule), 4_000);
    // Errors that come quickly make nothing faster.
    asked(&mut host, &rule, 20_000_000, 1, 500);
    assert_eq!(delay(&host, &rule), 4_000);
    for time in 300..400 {
        asked(&mut host, &rule, time * 100_000, 90_000, 200);
    }
    assert_eq!(delay(&host, &rule), 60_000);
}

#[test]
fn a_crawl_delay_counts_only_upwards() {
    let mut host = Pace::new();
    let fixed = rule(r#"{"delay": "5s"}"#);
    host.set_crawl_delay(Duration::from_secs(2));
    assert_eq!(delay(&host, &fixed), 5_000);
    host.set_crawl_delay(Duration::from_secs(100));
    assert_eq!(delay(&host, &fixed), 100_000);
    assert_eq!(delay(&host, &PaceRule::unlimited()), 100_000);
}

#[test]
fn without_limits_a_host_is_asked_as_fast_as_it_can() {
    let rule = PaceRule::unlimited();
    let mut host = Pace::new();
    asked(&mut host, &rule, 4, 1, 200);
    for _ in 0..1_000 {
        assert!(host.may_start(&rule, 5) <= 5);
        host.started(&rule, 5);
    }
}

#[test]
fn until_the_first_answer_there_is_one_request() {
    let rule = PaceRule::unlimited();
    for is_refused in [false, true] {
        let mut host = Pace::new();
        host.started(&rule, 5);
        assert_eq!(host.may_start(&rule, 6), AFTER_AN_ANSWER);
        match is_refused {
            true => host.cancelled(),
            false => host.ended(&rule, 6, Duration::from_millis(1), Some(200), None),
        }
        host.started(&rule, 7);
        assert!(host.may_start(&rule, 7) <= 7);
    }
}

#[test]
fn only_so_many_are_under_way() {
    let rule = rule(r#"{"delay": "0ms", "connections_per_host": 2}"#);
    let mut host = Pace::new();
    asked(&mut host, &rule, 4, 0, 200);
    host.started(&rule, 5);
    assert_eq!(host.may_start(&rule, 5), 5);
    host.started(&rule, 5);
    assert_eq!(host.may_start(&rule, 5), AFTER_AN_ANSWER);
    host.ended(&rule, 6, Duration::from_millis(1), Some(200), None);
    assert_eq!(host.may_start(&rule, 6), 5);
}

#[test]
fn a_host_that_complains_is_left_alone_ever_longer() {
    let rule = PaceRule::unlimited();
    let mut host = Pace::new();
    let mut now = 1_000_000;
    for wait in [1, 2, 4, 8, 16] {
        asked(&mut host, &rule, now, 0, 503);
        assert_eq!(host.may_start(&rule, now), now + wait * SECOND);
        now += 100 * SECOND;
    }
    for _ in 0..100 {
        asked(&mut host, &rule, now, 0, 429);
        now += 1_000 * SECOND;
    }
    host.started(&rule, now);
    host.ended(&rule, now, Duration::ZERO, None, None);
    assert_eq!(host.may_start(&rule, now), now + 600 * SECOND);
}

#[test]
fn a_host_may_say_how_long_but_not_for_years() {
    let rule = PaceRule::default();
    let mut host = Pace::new();
    let mut ask = |seconds: u64| {
        let wait = Some(Duration::from_secs(seconds));
        host.started(&rule, 10);
        host.ended(&rule, 10, Duration::ZERO, Some(429), wait);
        host.may_start(&rule, 10)
    };
    assert_eq!(ask(0), 10 + SECOND);
    assert_eq!(ask(30), 10 + 30 * SECOND);
    // A later answer that asks for less does not shorten it.
    assert_eq!(ask(5), 10 + 30 * SECOND);
    assert_eq!(ask(u64::MAX), 10 + 600 * SECOND);
}

#[test]
fn a_host_recovers_slowly() {
    let rule = rule(r#"{"delay": "1s"}"#);
    let mut host = Pace::new();
    for time in 1..4 {
        asked(&mut host, &rule, time * 100_000, 0, 503);
    }
    assert_eq!(delay(&host, &rule), 8_000);
    let mut delays = Vec::new();
    for time in 10..25 {
        asked(&mut host, &rule, time * 100_000, 0, 200);
        delays.push(delay(&host, &rule));
    }
    let expected = [[8_000; 4].as_slice(), &[4_000; 5], &[2_000; 5], &[1_000]].concat();
    assert_eq!(delays, expected);
}

#[test]
fn complaints_of_requests_that_were_under_way_together_count_once() {
    let rule = rule(r#"{"delay": "1s", "connections_per_host": 8}"#);
    let mut host = Pace::new();
    for _ in 0..8 {
        host.started(&rule, 1_000);
    }
    for late in 0..8 {
        let took = Duration::from_millis(1_000 + late);
        host.ended(&rule, 2_000 + late, took, Some(503), None);
    }
    assert_eq!(delay(&host, &rule), 2_000);
}

#[test]
fn after_a_take_over_the_first_request_waits_a_full_delay() {
    let rule = PaceRule::default();
    let mut host = Pace::taken_over(&rule, 10_000);
    assert_eq!(host.next_start_ms(), 10_250);
    assert_eq!(host.may_start(&rule, 10_001), 10_250);
    host.set_crawl_delay(Duration::from_secs(3));
    assert_eq!(host.may_start(&rule, 10_001), 13_000);
}

#[test]
fn what_was_never_asked_for_costs_no_delay() {
    let rule = rule(r#"{"connections_per_host": 2}"#);
    let mut host = Pace::new();
    asked(&mut host, &rule, 1_000, 10, 200);
    host.started(&rule, 2_000);
    host.cancelled();
    assert_eq!(host.may_start(&rule, 2_000), 1_250);
    // Of two, nobody knows which one was not asked for.
    host.started(&rule, 2_000);
    host.started(&rule, 2_250);
    host.ended(&rule, 2_300, Duration::from_millis(50), Some(200), None);
    host.cancelled();
    assert_eq!(host.may_start(&rule, 2_300), 2_500);
}

#[test]
fn a_clock_that_was_set_back_costs_one_break() {
    let rule = PaceRule::default();
    let mut host = Pace::new();
    asked(&mut host, &rule, 9_000_000_000, 1, 503);
    assert_eq!(host.may_start(&rule, 1_000_000), 1_600_000);
    assert!(host.may_start(&rule, 1_600_000) <= 1_600_000);
}

#[test]
fn a_hundred_thousand_hosts_take_little_memory() {
    assert!(size_of::<Pace>() <= 64);
}

#[test]
fn rules_are_read_and_checked() {
    assert_eq!(rule("{}"), PaceRule::default());
    assert_eq!(rule(r#"{"unlimited": true}"#), PaceRule::unlimited());
    for (text, word) in [
        (r#"{"delay": "1s", "unlimited": true}"#, "either"),
        (r#"{"factor": -1}"#, "factor"),
        (r#"{"delay_min": "2m"}"#, "delay_min"),
        (r#"{"delay_max": "2d"}"#, "delay_max"),
        (r#"{"delay": "2d"}"#, "delay"),
        (r#"{"connections_per_host": 0}"#, "connections_per_host"),
        (r#"{"back_off_min": "1h"}"#, "back_off_min"),
        (r#"{"back_off_max": "2d"}"#, "back_off_max"),
    ] {
        let rule: PaceRule = serde_json::from_str(text).unwrap();
        let problem = rule.check().unwrap_err();
        assert!(problem.contains(word), "{text}: {problem}");
    }
}
