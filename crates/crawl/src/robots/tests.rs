//! Tests of what RFC 9309 says, by its own examples where it has some.

use std::time::{Duration, Instant};

use super::*;

fn allowed(file: &str, path: &str) -> bool {
    let rules = Robots::parse(file.as_bytes()).for_agent("HivewireBot");
    rules.decide(path).allowed
}

#[track_caller]
fn check(pattern: &str, fitting: &[&str], others: &[&str]) {
    let file = format!("User-agent: *\nDisallow: {pattern}\n");
    for path in fitting {
        assert!(!allowed(&file, path), "{pattern} should fit {path}");
    }
    for path in others {
        assert!(allowed(&file, path), "{pattern} should not fit {path}");
    }
}

#[test]
fn groups_of_the_rfc_5_1() {
    let robots = Robots::parse(
        b"User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
          User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
          User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
          User-Agent: quxbot\n",
    );
    let may = |agent: &str, path: &str| robots.for_agent(agent).decide(path).allowed;
    assert!(may("foobot", "/example/page.html") && may("foobot", "/example/allowed.gif"));
    assert!(!may("foobot", "/") && !may("foobot", "/publications/"));
    assert!(!may("BarBot/1.0", "/example/page.html") && may("bazbot", "/example/a.gif"));
    assert!(may("quxbot", "/example/") && may("quxbot", "/a.gif"));
    assert!(!may("other", "/example/") && !may("other", "/a.gif") && may("other", "/a.gif?x"));
}

#[test]
fn the_longest_match_of_the_rfc_5_2() {
    let file =
        "User-Agent: HivewireBot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n";
    let rules = Robots::parse(file.as_bytes()).for_agent("hivewirebot");
    let decision = rules.decide("/example/page/disallowed.gif");
    assert!(!decision.allowed);
    let line = decision.line.unwrap();
    assert_eq!(line.number, 3);
    assert_eq!(line.text.as_ref(), "Disallow: /example/page/disallowed.gif");
    assert_eq!(rules.decide("/example/page/").line.unwrap().number, 2);
    assert_eq!(rules.decide("/other").line, None);
}

#[test]
fn allow_wins_if_both_are_equally_long() {
    let decision = Robots::parse(b"User-agent: *\nDisallow: /a*\nAllow: /ab\n")
        .for_agent("x")
        .decide("/ab");
    assert!(decision.allowed);
    assert_eq!(decision.line.unwrap().number, 3);
}

#[test]
fn percent_encoding_is_compared_as_the_rfc_2_2_2_says() {
    check(
        "/foo/bar?baz=quz",
        &["/foo/bar?baz=quz"],
        &["/foo/bar?baz=q"],
    );
    let both = [
        "/foo/bar?baz=https://foo.bar",
        "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
    ];
    check(both[0], &both, &[]);
    check(both[1], &both, &[]);
    check(
        "/foo/bar/ツ",
        &["/foo/bar/%E3%83%84", "/foo/bar/ツ", "/foo/bar/%e3%83%84"],
        &["/foo/bar/"],
    );
    check(
        "/foo/bar/%E3%83%84",
        &["/foo/bar/%E3%83%84", "/foo/bar/ツ"],
        &["/foo/bar/%E3"],
    );
    check(
        "/foo/bar/%62%61%7A",
        &["/foo/bar/baz", "/foo/bar/b%61z"],
        &[],
    );
    check("/foo/bar/baz", &["/foo/bar/%62%61%7a"], &[]);
    // Reserved ones mean something else when they are escaped.
    check("/a%2Fb", &["/a%2fb"], &["/a/b"]);
    check("/a/b", &["/a/b"], &["/a%2Fb"]);
    check("/?a%26b", &["/?a%26b"], &["/?a&b"]);
    check(
        "/*u=https%3A%2F%2F",
        &["/?u=https%3a%2f%2fx"],
        &["/?u=http"],
    );
    check(
        "/*u=https://",
        &["/?u=https://x", "/?u=https%3A%2F%2Fx"],
        &[],
    );
    // No half of an escape is found.
    check("/*2F", &["/a2F"], &["/a%2F"]);
    check("/a b", &["/a%20b"], &["/a"]);
    check("/100%", &["/100%25", "/100%"], &["/100"]);
}

#[test]
fn special_characters_of_the_rfc_2_2_3() {
    check(
        "/path/file-with-a-%2A.html",
        &["/path/file-with-a-*.html", "/path/file-with-a-%2A.html"],
        &["/path/file-with-a-b.html"],
    );
    check(
        "/path/foo-%24",
        &["/path/foo-$", "/path/foo-$/x"],
        &["/path/foo-"],
    );
    check("/a$b", &["/a$b", "/a%24bc"], &["/a", "/ab"]);
    check(
        "*.gif$",
        &["/a.gif", "/a.gif/b.gif"],
        &["/a.gif?x", "/agif"],
    );
    check(
        "/*/x/*y$",
        &["/a/x/y", "/a/x/yy", "/b/a/x/x/zy"],
        &["/x/y", "/a/x/yz"],
    );
    check("/a", &["/a", "/ab", "/a/b", "/a?b"], &["/A", "/", "/b/a"]);
    check("/a$", &["/a"], &["/a/", "/a?"]);
    check("/**a***$", &["/a", "/ba", "/ab"], &["/b"]);
    check("a", &[], &["/a", "/"]);
    check("*", &["/", "/a"], &[]);
    check("$", &[], &["/"]);
}

#[test]
fn a_line_may_be_written_carelessly() {
    for file in [
        "\u{feff}User-agent: *\nDisallow: /a",
        "user-agent:*\rdisallow:/a\r",
        "USER-AGENT : *\r\n\r\n# nothing\r\n  DISALLOW\t:\t/a  # why\r\n",
        "useragent *\ndisallow /a",
        "User Agent: * all\nDisalow: /a",
        "user-agent: *\ndissallow: /a",
        "user-agent: *\nunknown: 1\nallow of all things\ndiasllow: /a",
        "disallow: /\nuser-agent: *\ndisallow: /a",
        "User-agent: *\nDisallow:\nDisallow: /a",
        "User-agent: *\n\0\nDisallow: /a",
    ] {
        assert!(!allowed(file, "/a"), "{file:?}");
        assert!(allowed(file, "/b"), "{file:?}");
    }
    for file in [
        "",
        "\u{feff}",
        "Disallow: /",
        "User-agent: *",
        "User-agent: other\nDisallow: /",
        "<html>: /\n",
        ":\n: /a",
    ] {
        assert!(allowed(file, "/a"), "{file:?}");
    }
}

#[test]
fn other_lines_do_not_end_a_group() {
    let file = "User-agent: HivewireBot\nSitemap: https://example.com/s.xml\nCrawl-delay: 3\nUser-agent: other\nDisallow: /a\n";
    let robots = Robots::parse(file.as_bytes());
    for agent in ["HivewireBot", "other"] {
        assert!(!robots.for_agent(agent).decide("/a").allowed);
        assert_eq!(
            robots.for_agent(agent).crawl_delay(),
            Some(Duration::from_secs(3))
        );
    }
    assert_eq!(robots.sitemaps(), ["https://example.com/s.xml"]);
}

#[test]
fn groups_for_the_same_agent_are_one() {
    let file = "User-agent: HivewireBot\nDisallow: /a\nCrawl-delay: 1\n\nUser-agent: *\nDisallow: /\n\nUser-agent: hivewirebot\nDisallow: /b\nCrawl-delay: 2\n";
    let rules = Robots::parse(file.as_bytes()).for_agent("HivewireBot");
    assert!(
        !rules.decide("/a").allowed && !rules.decide("/b").allowed && rules.decide("/c").allowed
    );
    assert_eq!(rules.crawl_delay(), Some(Duration::from_secs(2)));
}

#[test]
fn an_agent_without_a_token_is_not_the_one_that_is_meant() {
    let file = "User-agent: 007\nDisallow: /\nUser-agent: *\nDisallow: /a";
    let rules = Robots::parse(file.as_bytes()).for_agent("42");
    assert!(rules.decide("/b").allowed && !rules.decide("/a").allowed);
}

#[test]
fn robots_txt_itself_is_always_allowed() {
    assert!(allowed("User-agent: *\nDisallow: /\n", "/robots.txt"));
    assert!(!allowed("User-agent: *\nDisallow: /\n", "/robots.txt?x"));
}

#[test]
fn delays_are_read_and_bounded() {
    for (line, seconds) in [
        ("Crawl-delay: 10", Some(10.0)),
        ("crawl-delay: 0.5", Some(0.5)),
        ("crawldelay 7", Some(7.0)),
        ("Crawl-delay: 0", Some(0.0)),
        ("Crawl-delay: 1e300", Some(3_600.0)),
        ("Crawl-delay: inf", Some(3_600.0)),
        ("Crawl-delay: nan", None),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: soon", None),
        ("Crawl-delay:", None),
        ("Request-rate: 1/10", Some(10.0)),
        ("Request-rate: 30/1m", Some(2.0)),
        ("Request-rate: 1/1h", Some(3_600.0)),
        ("Request-rate: 0/1", Some(3_600.0)),
        ("Request-rate: 0/0", None),
        ("Request-rate: 1/10 0800-1600", None),
    ] {
        let file = format!("User-agent: *\n{line}\n");
        let delay = Robots::parse(file.as_bytes()).for_agent("x").crawl_delay();
        assert_eq!(delay, seconds.map(Duration::from_secs_f64), "{line}");
    }
}

#[test]
fn a_file_is_read_up_to_its_limit_and_not_half_a_line() {
    let mut file = b"User-agent: *\nDisallow: /a\n".to_vec();
    while file.len() < ROBOTS_BYTES_MAX - 30 {
        file.extend(b"# comment\n");
    }
    let missing = ROBOTS_BYTES_MAX - file.len() - b"Disallow: /".len();
    file.extend(vec![b' '; missing]);
    file.extend(b"Disallow: /bbb\nDisallow: /c\n");
    let rules = Robots::parse(&file).for_agent("x");
    assert!(!rules.decide("/a").allowed);
    assert!(
        rules.decide("/bbb").allowed && rules.decide("/c").allowed && rules.decide("/d").allowed
    );
}

#[test]
fn a_long_line_is_shown_shortened() {
    let file = format!("User-agent: *\nDisallow: /{}", "ä".repeat(1_000));
    let path = format!("/{}", "ä".repeat(1_000));
    let line = Robots::parse(file.as_bytes())
        .for_agent("x")
        .decide(&path)
        .line
        .unwrap();
    assert_eq!(line.text.chars().count(), 201);
}

/// With a matcher that tries every way, this would not end in a lifetime.
#[test]
fn hostile_patterns_cost_little() {
    let path = format!("/{}", "a".repeat(2_000));
    let mut file = "User-agent: *\n".to_owned();
    while file.len() < ROBOTS_BYTES_MAX / 8 {
        file.push_str("Disallow: /");
        file.push_str(&"*a".repeat(500));
        file.push_str(&"a".repeat(400));
        file.push_str("*b$\n");
    }
    let rules = Robots::parse(file.as_bytes()).for_agent("x");
    let start = Instant::now();
    assert!(rules.decide(&path).allowed);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "it took {:?}",
        start.elapsed()
    );
}

#[test]
fn what_a_status_means() {
    for (status, redirects, expected) in [
        (Some(200), 0, OfStatus::Parse),
        (Some(204), 3, OfStatus::Parse),
        (Some(301), 0, OfStatus::Follow),
        (Some(307), 4, OfStatus::Follow),
        (Some(302), 5, OfStatus::AllowAll),
        (Some(404), 0, OfStatus::AllowAll),
        (Some(401), 0, OfStatus::AllowAll),
        (Some(403), 0, OfStatus::AllowAll),
        (Some(429), 0, OfStatus::DisallowAllForNow),
        (Some(500), 0, OfStatus::DisallowAllForNow),
        (Some(503), 2, OfStatus::DisallowAllForNow),
        (Some(999), 0, OfStatus::DisallowAllForNow),
        (None, 0, OfStatus::DisallowAllForNow),
    ] {
        assert_eq!(Robots::of_status(status, redirects), expected, "{status:?}");
    }
    assert!(!Rules::disallow_all().decide("/").allowed && Rules::allow_all().decide("/").allowed);
}
