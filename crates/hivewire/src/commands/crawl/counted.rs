//! Numbers for people.

use std::time::Duration;

/// A number with its thousands apart.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the unit that suits them.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// How many a second, or a minute if that says more.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 100.0 => format!("{rate:.0}/s"),
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate if rate > 0.0 => format!("{:.1}/min", rate * 60.0),
        _ => "0/s".to_owned(),
    }
}

/// A length of time.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) if seconds < 10 => format!("{:.1} s", time.as_secs_f64()),
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(number(0), "0");
        assert_eq!(
            (number(999), number(1_234_567)),
            ("999".into(), "1,234,567".into())
        );
        assert_eq!(
            (bytes(999), bytes(1_500)),
            ("999 B".into(), "1.5 kB".into())
        );
        assert_eq!(
            (bytes(999_999), bytes(2_000_000_000)),
            ("1.0 MB".into(), "2.0 GB".into())
        );
        assert_eq!((rate(0.0), rate(0.1)), ("0/s".into(), "6.0/min".into()));
        assert_eq!(
            (rate(12.34), rate(1_234.5)),
            ("12.3/s".into(), "1234/s".into())
        );
        let seconds = |seconds: f64| time(Duration::from_secs_f64(seconds));
        assert_eq!(
            (seconds(1.25), seconds(42.0)),
            ("1.2 s".into(), "42 s".into())
        );
        assert_eq!(
            (seconds(61.0), seconds(7_260.0)),
            ("1 min 1 s".into(), "2 h 1 min".into())
        );
    }
}
