//! Pages without end: calendars, session ids, paths that grow.

use super::{Trap, page};

/// A day for ever after another, each with a link to the next one and to the next month.
pub(super) const CALENDAR: Trap = Trap {
    name: "calendar",
    links: &["/traps/calendar/2026/11/18"],
    answer: |_, _, request, reply| {
        let parts: Vec<u32> = request
            .below("/traps/calendar")
            .split('/')
            .filter_map(|part| part.parse().ok())
            .collect();
        let [year, month, day] = parts[..] else {
            return reply.whole(404, &[], b"");
        };
        let link = |year, month, day| format!("/traps/calendar/{year}/{month}/{day}");
        let next_day = match day {
            28.. => link(year, month + 1, 1),
            _ => link(year, month, day + 1),
        };
        let next_month = match month {
            12.. => link(year + 1, 1, 1),
            _ => link(year, month + 1, 1),
        };
        let title = format!("Nothing happens on day {day} of month {month} of {year}");
        reply.html(page(&title, &[next_day, next_month]))
    },
};

/// Five pages whose links carry another session id each time.
pub(super) const SESSION: Trap = Trap {
    name: "session",
    links: &["/traps/session/0"],
    answer: |_, _, request, reply| {
        let number = request.below("/traps/session").chars().next();
        let number = number.and_then(|digit| digit.to_digit(10)).unwrap_or(0);
        // Of the shape that common software gives to them.
        let session = format!("{:032x}", fastrand::u128(..));
        let next = (number + 1) % 5;
        let links = [
            format!("/traps/session/{next}?PHPSESSID={session}"),
            format!("/traps/session/{next};jsessionid={session}"),
        ];
        reply.html(page(&format!("Session page {number}"), &links))
    },
};

/// Each page leads one folder further down, as wrong relative links do.
pub(super) const DEEP: Trap = Trap {
    name: "deep",
    links: &["/traps/deep/a/"],
    answer: |_, _, request, reply| {
        let levels = request.path.matches('/').count();
        reply.html(page(&format!("Level {levels}"), &["a/".to_owned()]))
    },
};

/// A link of 20,000 letters, and a page whose links double in length.
pub(super) const LONG: Trap = Trap {
    name: "long",
    links: &["/traps/long/a"],
    answer: |_, _, request, reply| {
        let name = request.below("/traps/long");
        let links = [
            format!("/traps/long/{}", "b".repeat(20_000)),
            format!("/traps/long/{name}{name}"),
        ];
        reply.html(page(&format!("A name of {} letters", name.len()), &links))
    },
};
