//! Whether results are those that were due, and how long they were waited for.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::stream::{Arrival, Sent};
use super::{ClusterError, Result};

/// Fails unless every message came out once, those of a key in order, with the state that they should
/// have met: their count, and as many bytes as `kept` says for the message of this number.
pub fn check(sent: &[Sent], arrived: &[Arrival], kept: impl Fn(usize) -> u64) -> Result<()> {
    let mut times = vec![0_u32; sent.len()];
    let mut last: HashMap<u32, usize> = HashMap::new();
    let (mut doubled, mut inverted, mut miscounted) = (0, 0, 0);
    for arrival in arrived {
        let number = arrival.number;
        let Some(message) = sent.get(number) else {
            let what = format!("the result of message {number}, which was never sent");
            return Err(ClusterError::Unexpected(what));
        };
        times[number] += 1;
        doubled += usize::from(times[number] > 1);
        let latest = last.entry(message.key).or_insert(number);
        inverted += usize::from(number < *latest);
        *latest = number.max(*latest);
        let is_right = arrival.count == message.count && arrival.kept == kept(number);
        miscounted += usize::from(!is_right);
    }
    let lost = times.iter().filter(|times| **times == 0).count();
    match lost + doubled + inverted + miscounted {
        0 => Ok(()),
        _ => Err(ClusterError::Harm {
            sent: sent.len(),
            lost,
            doubled,
            inverted,
            miscounted,
        }),
    }
}

/// The longest that each key waited for a result after its message was due, of the messages that were
/// due in this time.
pub fn waits(sent: &[Sent], arrived: &[Arrival], time: &Range<Instant>) -> HashMap<u32, Duration> {
    let mut waits: HashMap<u32, Duration> = HashMap::new();
    for arrival in arrived {
        let message = sent[arrival.number];
        if time.contains(&message.due) {
            let wait = arrival.at.saturating_duration_since(message.due);
            let longest = waits.entry(message.key).or_default();
            *longest = wait.max(*longest);
        }
    }
    waits
}

/// How long each message of these keys that was due in this time waited for its result.
pub fn message_waits(
    sent: &[Sent],
    arrived: &[Arrival],
    time: &Range<Instant>,
    counts: impl Fn(&u32) -> bool,
) -> Vec<Duration> {
    let message = |arrival: &Arrival| (sent[arrival.number], arrival.at);
    let messages = arrived.iter().map(message);
    let due = messages.filter(|(message, _)| time.contains(&message.due) && counts(&message.key));
    due.map(|(message, at)| at.saturating_duration_since(message.due))
        .collect()
}

/// The wait that so many hundredths of all waits do not exceed.
pub fn percentile(waits: impl Iterator<Item = Duration>, hundredths: usize) -> Duration {
    let mut waits: Vec<Duration> = waits.collect();
    waits.sort_unstable();
    let rank = (waits.len() * hundredths).div_ceil(100);
    let index = rank.max(1) - 1;
    waits.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(began: Instant) -> Vec<Sent> {
        let message = |(number, key, count)| Sent {
            key,
            count,
            due: began + Duration::from_secs(number),
        };
        [(0, 0, 1), (1, 1, 1), (2, 0, 2)].map(message).to_vec()
    }

    fn results(began: Instant, of: &[(usize, u64)]) -> Vec<Arrival> {
        let result = |(place, &(number, count)): (usize, &(usize, u64))| Arrival {
            number,
            count,
            kept: 8,
            at: began + Duration::from_secs(3 + place as u64),
        };
        of.iter().enumerate().map(result).collect()
    }

    #[test]
    fn whatever_is_wrong_is_found() {
        let began = Instant::now();
        let found =
            |of: &[(usize, u64)], bytes: u64| match check(&sent(began), &results(began, of), |_| {
                bytes
            }) {
                Ok(()) => [0; 4],
                Err(ClusterError::Harm {
                    lost,
                    doubled,
                    inverted,
                    miscounted,
                    ..
                }) => [lost, doubled, inverted, miscounted],
                Err(_) => [9; 4],
            };
        assert_eq!(found(&[(1, 1), (0, 1), (2, 2)], 8), [0; 4]);
        assert_eq!(found(&[(1, 1), (0, 1)], 8), [1, 0, 0, 0]);
        assert_eq!(found(&[(0, 1), (0, 1), (1, 1), (2, 2)], 8), [0, 1, 0, 0]);
        assert_eq!(found(&[(2, 2), (0, 1), (1, 1)], 8), [0, 0, 1, 0]);
        assert_eq!(found(&[(0, 1), (1, 1), (2, 1)], 8), [0, 0, 0, 1]);
        assert_eq!(found(&[(0, 1), (1, 1), (2, 2)], 7), [0, 0, 0, 3]);
        assert_eq!(found(&[(3, 1)], 8), [9; 4]);
    }

    #[test]
    fn a_key_waits_as_long_as_its_latest_result() {
        let began = Instant::now();
        let arrived = results(began, &[(0, 1), (1, 1), (2, 2)]);
        let seconds = |from: u64, to: u64| {
            let time = began + Duration::from_secs(from)..began + Duration::from_secs(to);
            let mut waits: Vec<_> = waits(&sent(began), &arrived, &time).into_iter().collect();
            waits.sort_unstable();
            let seconds = waits.iter().map(|(key, wait)| (*key, wait.as_secs()));
            seconds.collect::<Vec<_>>()
        };
        assert_eq!(seconds(0, 3), [(0, 3), (1, 3)]);
        assert_eq!(seconds(2, 3), [(0, 3)]);
        assert!(seconds(3, 9).is_empty());
    }

    #[test]
    fn each_message_of_the_keys_that_count_has_its_wait() {
        let began = Instant::now();
        let arrived = results(began, &[(0, 1), (1, 1), (2, 2)]);
        let time = began..began + Duration::from_secs(2);
        let of = |key: u32| message_waits(&sent(began), &arrived, &time, |one| *one == key);
        assert_eq!(of(0), [Duration::from_secs(3)]);
        assert_eq!(of(1), [Duration::from_secs(3)]);
        assert!(of(2).is_empty());
    }

    #[test]
    fn percentiles_are_waits_that_were_seen() {
        let of = |count: u64, hundredths| {
            let waits = (1..=count).rev().map(Duration::from_millis);
            percentile(waits, hundredths).as_millis()
        };
        assert_eq!([of(100, 99), of(200, 99), of(10, 99)], [99, 198, 10]);
        assert_eq!([of(1, 50), of(0, 50)], [1, 0]);
    }
}
