//! Our parser against two others and a model.
//!
//! The crate `robotstxt` is a port of Google's parser, the crate `texting_robots` another one. Where they disagree with each other,
//! at most one of them can be right, and the RFC decides, by way of a model: the simplest thing that could be written down.

use proptest::prelude::*;
use proptest::sample::select;
use robotstxt::DefaultMatcher;
use texting_robots::Robot;

use super::*;

const AGENT: &str = "HivewireBot";

#[derive(Clone, Debug)]
struct GeneratedGroup {
    agents: Vec<&'static str>,
    /// How the key is written, and the pattern.
    rules: Vec<(&'static str, String)>,
}

/// A file, and the numbers of its lines with rules, in the order of the rules.
fn render(groups: &[GeneratedGroup], line_end: &str, between: &str) -> (String, Vec<u32>) {
    let (mut lines, mut numbers) = (vec!["# made by a test".to_owned()], Vec::new());
    for group in groups {
        lines.push(between.to_owned());
        lines.extend(
            group
                .agents
                .iter()
                .map(|agent| format!("User-agent: {agent}")),
        );
        for (key, pattern) in &group.rules {
            lines.push(format!("{key}: {pattern}"));
            numbers.push(lines.len() as u32);
        }
    }
    (lines.join(line_end) + line_end, numbers)
}

fn is_allow(key: &str) -> bool {
    key.eq_ignore_ascii_case("allow")
}

/// Whether a pattern fits, by trying everything.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => true,
        [b'$'] => path.is_empty(),
        [b'*', rest @ ..] => (0..=path.len()).any(|skipped| fits(rest, &path[skipped..])),
        [byte, rest @ ..] => path.first() == Some(byte) && fits(rest, &path[1..]),
    }
}

/// What the RFC says: whether the path is allowed, and the line that decides.
fn model(groups: &[GeneratedGroup], numbers: &[u32], path: &str) -> (bool, Option<u32>) {
    let is_named = |group: &&GeneratedGroup, name: &str| {
        group
            .agents
            .iter()
            .any(|agent| agent.eq_ignore_ascii_case(name))
    };
    let named = groups.iter().any(|group| is_named(&group, AGENT));
    let name = if named { AGENT } else { "*" };
    let mut numbers = numbers.iter();
    let mut best: Option<(usize, bool, u32)> = None;
    for group in groups {
        for ((key, pattern), number) in group.rules.iter().zip(numbers.by_ref()) {
            let counts = is_named(&group, name) && !pattern.is_empty();
            if counts && fits(pattern.as_bytes(), path.as_bytes()) {
                let found = (pattern.len(), is_allow(key));
                if best.is_none_or(|(length, allow, _)| found > (length, allow)) {
                    best = Some((found.0, found.1, *number));
                }
            }
        }
    }
    (
        best.is_none_or(|(_, allow, _)| allow),
        best.map(|(_, _, number)| number),
    )
}

fn by_google(file: &str, path: &str) -> bool {
    let url = format!("http://example.com{path}");
    DefaultMatcher::default().one_agent_allowed_by_robots(file, AGENT, &url)
}

fn by_texting(file: &str, path: &str) -> bool {
    Robot::new(AGENT, file.as_bytes()).unwrap().allowed(path)
}

fn groups(pattern: &'static str) -> impl Strategy<Value = Vec<GeneratedGroup>> {
    let agents = select(vec![
        "*",
        "HivewireBot",
        "hivewirebot",
        "OtherBot",
        "Hivewire",
        "HIVEWIREBOT",
    ]);
    let keys = select(vec![
        "Allow",
        "allow",
        "Disallow",
        "disallow",
        "DISALLOW",
        "Disalow",
        "Dissallow",
    ]);
    let rules = prop::collection::vec((keys, pattern), 0..5);
    let group = (prop::collection::vec(agents, 1..3), rules)
        .prop_map(|(agents, rules)| GeneratedGroup { agents, rules });
    // A group without rules is one with the group after it.
    let joined = |groups: Vec<GeneratedGroup>| {
        let mut all: Vec<GeneratedGroup> = Vec::new();
        for mut group in groups {
            match all.last_mut() {
                Some(last) if last.rules.is_empty() => {
                    last.agents.append(&mut group.agents);
                    last.rules = group.rules;
                }
                _ => all.push(group),
            }
        }
        all
    };
    prop::collection::vec(group, 0..5).prop_map(joined)
}

fn ours(file: &str, path: &str) -> (bool, Option<u32>) {
    let decision = Robots::parse(file.as_bytes()).for_agent(AGENT).decide(path);
    (decision.allowed, decision.line.map(|line| line.number))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn without_wildcards_all_agree(
        groups in groups("/[ab/.?]{0,4}"),
        path in "/[ab/.?]{0,6}",
        line_end in select(vec!["\n", "\r\n"]),
        between in select(vec!["", "# comment", " "]),
    ) {
        let (file, numbers) = render(&groups, line_end, between);
        let expected = model(&groups, &numbers, &path);
        prop_assert_eq!(ours(&file, &path), expected);
        prop_assert_eq!(by_google(&file, &path), expected.0);
        prop_assert_eq!(by_texting(&file, &path), expected.0);
    }

    #[test]
    fn with_wildcards_the_model_decides_where_the_others_disagree(
        groups in groups("([/*][ab/*]{0,5}[$]?)?"),
        path in "/[ab/]{0,7}",
    ) {
        let (file, numbers) = render(&groups, "\n", "");
        let expected = model(&groups, &numbers, &path);
        prop_assert_eq!(ours(&file, &path), expected);
        let google = by_google(&file, &path);
        if google == by_texting(&file, &path) {
            prop_assert_eq!(google, expected.0);
        }
    }

    #[test]
    fn no_file_and_no_path_is_too_odd(file in prop::collection::vec(any::<u8>(), 0..200), path in ".{0,40}") {
        let robots = Robots::parse(&file);
        robots.for_agent(AGENT).decide(&path);
    }

    #[test]
    fn no_text_is_too_odd(
        pieces in prop::collection::vec(select(vec!["User-agent:", "*", "Disallow:", "Allow", " ", "\n", "\r", "/", "$", "%", "%2", "ä", "#", ":", "Crawl-delay: 1", "HivewireBot"]), 0..30),
        path in "[/a%*$ä]{0,10}",
    ) {
        let robots = Robots::parse(pieces.concat().as_bytes());
        robots.for_agent(AGENT).decide(&path);
    }
}

/// Each line says who is wrong, and why we do not follow.
#[test]
fn where_the_others_differ_from_the_rfc() {
    let check = |file: &str, path: &str, expected: bool, google: bool, texting: bool| {
        assert_eq!(ours(file, path).0, expected, "ours: {file:?} {path}");
        assert_eq!(by_google(file, path), google, "robotstxt: {file:?} {path}");
        assert_eq!(
            by_texting(file, path),
            texting,
            "texting_robots: {file:?} {path}"
        );
    };
    // robotstxt forgets later places where `a` fits after `*`; the RFC and texting_robots find `ab`.
    check("User-agent: *\nDisallow: *ab", "/aab", false, true, false);
    // texting_robots takes an empty `Disallow` for `Allow: /`, which is then as long as `*`. By the RFC it says nothing.
    check(
        "User-agent: *\nDisallow: *\nDisallow:",
        "/a",
        false,
        false,
        true,
    );
    // texting_robots lets rules count that stand before any agent. By the RFC they belong to no group.
    check("Disallow: /a", "/a", true, true, false);
    // robotstxt lets a sitemap end the list of agents. By the RFC (2.2.4) it must not interfere; texting_robots agrees.
    check(
        "User-agent: HivewireBot\nSitemap: /s\nUser-agent: other\nDisallow: /a",
        "/a",
        false,
        true,
        false,
    );
    // Both let a crawl-delay end the list of agents, which the RFC does not know and so must not interfere either.
    check(
        "User-agent: HivewireBot\nCrawl-delay: 1\nUser-agent: other\nDisallow: /a",
        "/a",
        false,
        true,
        true,
    );
    // robotstxt forgets that the file itself may always be fetched (2.2.2).
    check(
        "User-agent: *\nDisallow: /",
        "/robots.txt",
        true,
        false,
        true,
    );
    // Neither decodes escapes of unreserved characters (2.2.2).
    check("User-agent: *\nDisallow: /%62", "/b", false, true, true);
    // texting_robots takes `$` for the end of the path wherever it stands; it is special only at the end of a pattern (2.2.3).
    check("User-agent: *\nDisallow: /a$*", "/a", true, true, false);
    // texting_robots compares the whole value with the agent. By the RFC (2.2.1) the product token counts.
    check(
        "User-agent: HivewireBot/2.0\nDisallow: /a",
        "/a",
        false,
        false,
        true,
    );
    // robotstxt lets `index.html` stand for its folder, which the RFC does not know.
    check(
        "User-agent: *\nDisallow: /\nAllow: /a/index.html",
        "/a/",
        false,
        true,
        false,
    );
}
