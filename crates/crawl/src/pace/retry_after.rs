//! The header `Retry-After`.

use std::time::{Duration, SystemTime};

/// How long a `Retry-After` asks to wait, if it can be understood: a number of seconds, or a date. A date that is over asks for
/// nothing.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // What does not fit is certainly long enough.
        return Some(Duration::from_secs(
            value.parse().unwrap_or(u32::MAX.into()),
        ));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_of_all_three_kinds_are_understood() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let now = date - Duration::from_secs(30);
        for (value, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("99999999999999999999", Some(u32::MAX.into())),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(30)),
            ("Sun Nov  6 08:49:37 1994", Some(30)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(
                retry_after(value, now),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
