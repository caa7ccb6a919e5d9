//! Tests of single steps.

use super::*;

const SECOND: u64 = 1_000;

fn rules(change: impl FnOnce(&mut PaceRules)) -> PaceRules {
    let mut rules = PaceRules::default();
    change(&mut rules);
    rules.check().unwrap();
    rules
}

/// A host that was asked at this time and answered so.
fn asked(host: &mut Pace, now: u64, took_ms: u64, status: u16, rules: &PaceRules) {
    host.started(now);
    host.answered(now + took_ms, took_ms, status, None, rules);
}

#[test]
fn an_adaptive_delay_follows_the_answers_within_its_limits() {
    let rules = PaceRules::default();
    let mut host = Pace::new();
    asked(&mut host, 1, 10, 200, &rules);
    assert_eq!(host.delay_ms(&rules), 250);
    for time in 1..100 {
        asked(&mut host, time * 100_000, 2_000, 200, &rules);
    }
    assert_eq!(host.delay_ms(&rules), 4_000);
    // Errors that come quickly make nothing faster.
    asked(&mut host, 20_000_000, 1, 500, &rules);
    assert_eq!(host.delay_ms(&rules), 4_000);
    for time in 300..400 {
        asked(&mut host, time * 100_000, 90_000, 200, &rules);
    }
    assert_eq!(host.delay_ms(&rules), 60_000);
}

#[test]
fn a_crawl_delay_counts_only_upwards() {
    let mut host = Pace::new();
    let fixed = rules(|rules| rules.delay = Delay::FixedMs(5_000));
    host.set_crawl_delay(Some(Duration::from_secs(2)));
    assert_eq!(host.delay_ms(&fixed), 5_000);
    host.set_crawl_delay(Some(Duration::from_secs(100)));
    assert_eq!(host.delay_ms(&fixed), 100_000);
    let unlimited = rules(|rules| rules.delay = Delay::Unlimited);
    assert_eq!(host.delay_ms(&unlimited), 100_000);
    let deaf = rules(|rules| {
        rules.delay = Delay::Unlimited;
        rules.crawl_delay_obeyed = false;
    });
    assert_eq!(host.delay_ms(&deaf), 0);
}

#[test]
fn without_a_delay_only_the_connections_count() {
    let rules = rules(|rules| {
        rules.delay = Delay::Unlimited;
        rules.connections_per_host = 2;
    });
    let mut host = Pace::new();
    host.started(5);
    assert_eq!(host.may_start(5, &rules), MayStart::Now);
    host.started(5);
    assert_eq!(host.may_start(5, &rules), MayStart::AfterAnAnswer);
    host.answered(6, 1, 200, None, &rules);
    assert_eq!(host.may_start(6, &rules), MayStart::Now);
}

#[test]
fn a_host_that_complains_is_left_alone_ever_longer() {
    let rules = rules(|rules| rules.delay = Delay::Unlimited);
    let mut host = Pace::new();
    let mut now = 1_000_000;
    for wait in [1, 2, 4, 8, 16] {
        asked(&mut host, now, 0, 503, &rules);
        assert_eq!(
            host.may_start(now, &rules),
            MayStart::NotBefore(now + wait * SECOND)
        );
        now += 100 * SECOND;
    }
    for _ in 0..100 {
        asked(&mut host, now, 0, 429, &rules);
        now += 1_000 * SECOND;
    }
    host.started(now);
    host.failed(now, 0, &rules);
    assert_eq!(
        host.may_start(now, &rules),
        MayStart::NotBefore(now + 600 * SECOND)
    );
}

#[test]
fn a_host_may_say_how_long_but_not_for_years() {
    let rules = PaceRules::default();
    let mut host = Pace::new();
    let ask = |host: &mut Pace, seconds: u64| {
        host.started(10);
        host.answered(10, 0, 429, Some(Duration::from_secs(seconds)), &rules);
        host.may_start(10, &rules)
    };
    assert_eq!(ask(&mut host, 0), MayStart::NotBefore(10 + SECOND));
    assert_eq!(ask(&mut host, 30), MayStart::NotBefore(10 + 30 * SECOND));
    // A later answer that asks for less does not shorten it.
    assert_eq!(ask(&mut host, 5), MayStart::NotBefore(10 + 30 * SECOND));
    assert_eq!(
        ask(&mut host, u64::MAX),
        MayStart::NotBefore(10 + 600 * SECOND)
    );
}

#[test]
fn a_host_recovers_slowly() {
    let rules = rules(|rules| rules.delay = Delay::FixedMs(1_000));
    let mut host = Pace::new();
    for time in 1..4 {
        asked(&mut host, time * 100_000, 0, 503, &rules);
    }
    assert_eq!(host.delay_ms(&rules), 8_000);
    let mut delays = Vec::new();
    for time in 10..25 {
        asked(&mut host, time * 100_000, 0, 200, &rules);
        delays.push(host.delay_ms(&rules));
    }
    assert_eq!(
        delays,
        [[8_000; 4].as_slice(), &[4_000; 5], &[2_000; 5], &[1_000]].concat()
    );
}

#[test]
fn complaints_of_requests_that_were_under_way_together_count_once() {
    let rules = rules(|rules| {
        rules.delay = Delay::FixedMs(1_000);
        rules.connections_per_host = 8;
    });
    let mut host = Pace::new();
    for _ in 0..8 {
        host.started(1_000);
    }
    for late in 0..8 {
        host.answered(2_000 + late, 1_000 + late, 503, None, &rules);
    }
    assert_eq!(host.delay_ms(&rules), 2_000);
}

#[test]
fn after_a_take_over_the_first_request_waits_a_full_delay() {
    let rules = PaceRules::default();
    let mut host = Pace::new();
    host.started(500);
    let kept = serde_json::to_vec(&host).unwrap();
    let mut host: Pace = serde_json::from_slice(&kept).unwrap();
    host.taken_over(10_000, &rules);
    assert_eq!(host.may_start(10_000, &rules), MayStart::NotBefore(10_250));
    let mut unknown = Pace::new();
    unknown.taken_over(10_000, &rules);
    assert_eq!(
        unknown.may_start(10_001, &rules),
        MayStart::NotBefore(10_250)
    );
    assert_eq!(unknown.may_start(10_250, &rules), MayStart::Now);
}

#[test]
fn a_clock_that_was_set_back_costs_one_delay() {
    let rules = PaceRules::default();
    let mut host = Pace::new();
    asked(&mut host, 9_000_000_000, 1, 503, &rules);
    assert_eq!(
        host.may_start(1_000_000, &rules),
        MayStart::NotBefore(1_600_000)
    );
    assert_eq!(host.may_start(1_600_000, &rules), MayStart::Now);
}

#[test]
fn a_hundred_thousand_hosts_take_little_memory() {
    assert!(size_of::<Pace>() <= 40);
}

#[test]
fn rules_are_read_and_checked() {
    let read = |text: &str| serde_json::from_str::<PaceRules>(text).unwrap();
    assert_eq!(read("{}"), PaceRules::default());
    assert_eq!(
        read(r#"{"delay": {"fixed_ms": 6000}}"#).delay,
        Delay::FixedMs(6_000)
    );
    assert_eq!(read(r#"{"delay": "unlimited"}"#).delay, Delay::Unlimited);
    for (text, field) in [
        (r#"{"factor": -1}"#, "factor"),
        (r#"{"delay_min_ms": 70000}"#, "delay_min_ms"),
        (r#"{"delay_max_ms": 99999999999}"#, "delay_max_ms"),
        (r#"{"connections_per_host": 0}"#, "connections_per_host"),
        (r#"{"back_off_min_ms": 700000}"#, "back_off_min_ms"),
        (r#"{"back_off_max_ms": 99999999999}"#, "back_off_max_ms"),
    ] {
        assert_eq!(read(text).check().unwrap_err().field, field);
    }
}
