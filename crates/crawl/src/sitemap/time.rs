//! Times in sitemaps and feeds.

/// Milliseconds since 1970 of a time such as `2024-02-29T12:00:00+01:00`, `2024-02` or `Thu, 29 Feb 2024 12:00 GMT`.
pub(super) fn read(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.as_bytes().get(..4)?.iter().all(u8::is_ascii_digit) {
        true => of_web(text),
        false => of_mail(text),
    }
}

/// The form of the W3C: a year, and then as much as is known.
fn of_web(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let mut number = || parts.next().map_or(Some(1), |part| part.parse().ok());
    let (year, month, day) = (number()?, number()?, number()?);
    let of_day = match time {
        Some(time) => of_time_and_zone(time.trim())?,
        None => 0,
    };
    Some(days_since_1970(year, month, day)? * 86_400_000 + of_day)
}

/// The form of mail: an optional day of the week, day, month, year, time, zone.
fn of_mail(text: &str) -> Option<i64> {
    let behind_weekday = text.split_once(',').map_or(text, |(_, rest)| rest);
    let mut parts = behind_weekday.split_ascii_whitespace();
    let day = parts.next()?.parse().ok()?;
    let month = month_of(parts.next()?)?;
    let year: i64 = parts.next()?.parse().ok()?;
    let year = match year {
        0..=49 => year + 2_000,
        50..=99 => year + 1_900,
        _ => year,
    };
    let clock = parts.next().map_or(Some(0), clock_ms)?;
    let zone = parts.next().map_or(Some(0), zone_ms)?;
    Some(days_since_1970(year, month, day)? * 86_400_000 + clock - zone)
}

fn month_of(name: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let short = name.get(..3)?.to_ascii_lowercase();
    let at = MONTHS.iter().position(|month| *month == short)?;
    Some(at as i64 + 1)
}

fn of_time_and_zone(text: &str) -> Option<i64> {
    let zone = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone);
    Some(clock_ms(clock.trim())? - zone_ms(zone.trim())?)
}

/// Milliseconds of a time of day: `12:30`, `12:30:15` or `12:30:15.25`.
fn clock_ms(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next().map_or(Some(0.0), |part| part.parse().ok())?;
    let is_time =
        (0..=24).contains(&hours) && (0..60).contains(&minutes) && (0.0..61.0).contains(&seconds);
    is_time.then_some((hours * 60 + minutes) * 60_000 + (seconds * 1_000.0) as i64)
}

/// Milliseconds by which a zone is ahead: `Z`, `+01:00`, `-0800`, `EST`.
fn zone_ms(text: &str) -> Option<i64> {
    let hours = match text.to_ascii_uppercase().as_str() {
        "" | "Z" | "UT" | "UTC" | "GMT" => 0,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        "CET" => 1,
        "CEST" => 2,
        _ => return numeric_zone_ms(text),
    };
    Some(hours * 3_600_000)
}

fn numeric_zone_ms(text: &str) -> Option<i64> {
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let digits: String = text[1..]
        .chars()
        .filter(|character| *character != ':')
        .collect();
    let number: i64 = digits.parse().ok()?;
    let (hours, minutes) = match digits.len() {
        1 | 2 => (number, 0),
        3 | 4 => (number / 100, number % 100),
        _ => return None,
    };
    Some(sign * (hours * 60 + minutes) * 60_000)
}

/// Days since 1970 of a date that exists.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=9_999).contains(&year) || !(1..=days).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the day of a leap year comes last.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let of_years = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let of_months = (month * 153 + 2) / 5;
    Some(of_years + of_months + day - 1 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, seconds: Option<i64>) {
        assert_eq!(read(text), seconds.map(|seconds| seconds * 1_000), "{text}");
    }

    #[test]
    fn times_of_sitemaps_are_read() {
        check("1970-01-01", Some(0));
        check("2024", Some(1_704_067_200));
        check("2024-02", Some(1_706_745_600));
        check(" 2024-02-29T12:30:15Z ", Some(1_709_209_815));
        check("2024-02-29T12:30+01:00", Some(1_709_206_200));
        check("2024-02-29 12:30:15-0800", Some(1_709_238_615));
        assert_eq!(read("2024-02-29T00:00:00.250Z"), Some(1_709_164_800_250));
        check("2023-02-29", None);
        check("2024-13-01", None);
        check("2024-02-29T25:00Z", None);
        check("20240229", None);
        check("", None);
        check("2024-02-é", None);
    }

    #[test]
    fn times_of_feeds_are_read() {
        check("Thu, 29 Feb 2024 12:30:15 GMT", Some(1_709_209_815));
        check("29 February 24 12:30 +0100", Some(1_709_206_200));
        check("Thu, 29 Feb 2024", Some(1_709_164_800));
        check("Thu, 29 Feb 2024 12:30:15 PST", Some(1_709_238_615));
        check("yesterday, at noon", None);
    }

    /// Each day is one more than the one before it.
    #[test]
    fn days_follow_each_other() {
        let mut last = days_since_1970(1899, 12, 31).expect("a day");
        for year in 1900..2_101 {
            for (month, day) in (1..=12).flat_map(|month| (1..=31).map(move |day| (month, day))) {
                if let Some(days) = days_since_1970(year, month, day) {
                    assert_eq!(days, last + 1, "{year}-{month}-{day}");
                    last = days;
                }
            }
        }
    }
}
