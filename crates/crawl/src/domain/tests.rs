//! Tests of what belongs to a crawl.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn rules(parameters: serde_json::Value) -> DomainRules {
    DomainRules::new(&serde_json::from_value(parameters).unwrap()).unwrap()
}

fn refusal(rules: &DomainRules, url: &str, depth: u32) -> Option<(&'static str, String)> {
    match rules.decide(url, depth) {
        Verdict::Passes => None,
        Verdict::Refused(refusal) => Some((refusal.rule, refusal.reason)),
    }
}

#[track_caller]
fn check(domains: &[&str], inside: &[&str], outside: &[&str]) {
    let rules = rules(json!({ "domains": domains }));
    for url in inside {
        assert_eq!(refusal(&rules, url, 0), None, "{url}");
    }
    for url in outside {
        let (rule, _) = refusal(&rules, url, 0).expect(url);
        assert_eq!(rule, "domain", "{url}");
    }
}

#[test]
fn a_domain_covers_itself_and_what_is_below_it() {
    check(
        &["example.co.uk", "localhost:8080", "127.0.0.1"],
        &[
            "https://example.co.uk/",
            "http://www.example.co.uk:8080/a",
            "http://a.b.example.co.uk/",
            "http://example.co.uk./",
            "http://localhost:8080/",
            "http://127.0.0.1:4242/",
        ],
        &[
            "https://other.co.uk/",
            "https://myexample.co.uk/",
            "https://example.co.uk.evil.com/",
            "http://localhost/",
            "http://127.0.0.1.example.com/",
        ],
    );
}

#[test]
fn what_is_below_and_what_is_exact() {
    check(
        &["*.example.com", "=www.example.org", "=example.net:8443"],
        &[
            "http://a.example.com/",
            "http://b.a.example.com:1/",
            "http://www.example.org/",
            "https://example.net:8443/",
        ],
        &[
            "http://example.com/",
            "http://example.org/",
            "http://a.www.example.org/",
            "http://www.example.org:81/",
            "https://example.net/",
            "https://a.example.net:8443/",
        ],
    );
}

#[test]
fn an_address_written_in_another_way_does_not_slip_through() {
    check(
        &["example.com", "bücher.example", "[::1]"],
        &[
            "HTTP://WWW.Example.COM/",
            "http:\\\\example.com\\a",
            "http://someone@example.com/",
            "http://example.com",
            "http://xn--bcher-kva.example/",
            "http://www.bücher.example/",
            "http://[0:0::1]:8080/",
        ],
        &[
            "http://example.com@evil.com/",
            "http://evil.com\\@example.com/",
            "http://evil.com#example.com/",
            "http://evil.com?.example.com",
        ],
    );
    let rules = rules(json!({ "deny": ["http://example.com/secret*"] }));
    for url in [
        "HTTP://EXAMPLE.com:80/x/../secret",
        "http://a:b@example.com/secret",
    ] {
        assert_eq!(refusal(&rules, url, 0).unwrap().0, "pattern", "{url}");
    }
    assert_eq!(refusal(&rules, "http://", 0).unwrap().0, "syntax");
}

#[test]
fn patterns_decide_after_domains_and_deny_wins() {
    let rules = rules(json!({
        "domains": ["example.com"],
        "allow": ["https://*", "re:/page/[0-9]+$"],
        "deny": ["*/print/*", "*.pdf", "re:[?&]sort=", "https://example.com/a?c"],
    }));
    for url in [
        "https://example.com/",
        "http://example.com/page/12",
        "https://example.com/print",
        "https://example.com/abbc",
        "https://example.com/x.pdf?y",
    ] {
        assert_eq!(refusal(&rules, url, 0), None, "{url}");
    }
    for (url, reason) in [
        (
            "https://example.com/print/",
            "it fits the deny pattern `*/print/*`",
        ),
        (
            "https://example.com/x.pdf",
            "it fits the deny pattern `*.pdf`",
        ),
        (
            "https://example.com/?a=1&sort=2",
            "it fits the deny pattern `re:[?&]sort=`",
        ),
        (
            "https://example.com/abc",
            "it fits the deny pattern `https://example.com/a?c`",
        ),
        (
            "http://example.com/",
            "it fits none of the allow patterns `https://*`, `re:/page/[0-9]+$`",
        ),
    ] {
        assert_eq!(
            refusal(&rules, url, 0),
            Some(("pattern", reason.to_owned())),
            "{url}"
        );
    }
    let outside = refusal(&rules, "https://example.org/x.pdf", 0).unwrap();
    assert_eq!(
        outside,
        (
            "domain",
            "example.org is none of the domains `example.com`".to_owned()
        )
    );
}

#[test]
fn depth_is_counted_from_the_seed() {
    let rules = rules(json!({ "depth_max": 2 }));
    assert_eq!(refusal(&rules, "http://a.com/", 2), None);
    let reason = "it is 3 links away from a seed, and depth_max is 2".to_owned();
    assert_eq!(refusal(&rules, "http://a.com/", 3), Some(("depth", reason)));
}

#[test]
fn parameters_that_cannot_be_meant_are_refused() {
    for (parameters, field) in [
        (json!({"domains": ["example.com", "co.uk"]}), "domains[1]"),
        (json!({"domains": ["com"]}), "domains[0]"),
        (json!({"domains": ["http://example.com/"]}), "domains[0]"),
        (json!({"domains": ["example.com:x"]}), "domains[0]"),
        (json!({"domains": [""]}), "domains[0]"),
        (json!({"deny": ["re:("]}), "deny[0]"),
        (json!({"allow": ["a", ""]}), "allow[1]"),
        (json!({"allow": ["a".repeat(1_001)]}), "allow[0]"),
        (json!({"allow": vec!["a"; 1_001]}), "allow"),
        (json!({"allow": vec!["re:(a{100}){100}"; 100]}), "allow"),
    ] {
        let parameters: DomainParameters = serde_json::from_value(parameters).unwrap();
        let error = DomainRules::new(&parameters).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
}

#[test]
fn many_domains_are_named_by_the_first_few() {
    let domains: Vec<String> = (0..1_000)
        .map(|index| format!("site-{index}.com"))
        .collect();
    let rules = rules(json!({ "domains": domains }));
    let (_, reason) = refusal(&rules, "http://other.com/", 0).unwrap();
    let expected = "other.com is none of the domains `site-0.com`, `site-1.com`, `site-2.com`, `site-3.com`, `site-4.com`, and 995 more";
    assert_eq!(reason, expected);
}

#[test]
fn the_registrable_domain_of_a_host() {
    for (host, expected) in [
        ("www.example.co.uk:8080", "example.co.uk"),
        ("example.com", "example.com"),
        ("someone.github.io", "someone.github.io"),
        ("a.someone.github.io", "someone.github.io"),
        ("localhost", "localhost"),
        ("192.168.0.1:80", "192.168.0.1"),
        ("[::1]:80", "[::1]"),
        ("co.uk", "co.uk"),
    ] {
        assert_eq!(registrable_domain(host), expected, "{host}");
    }
}

/// What wildcards mean, said in the simplest way.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        [b'?', rest @ ..] => !text.is_empty() && fits(rest, &text[1..]),
        [byte, rest @ ..] => text.first() == Some(byte) && fits(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn wildcards_fit_what_they_should(pattern in "[ab.*?]{1,8}", text in "[ab.?]{0,10}") {
        let patterns = Patterns::new("deny", std::slice::from_ref(&pattern)).unwrap();
        prop_assert_eq!(patterns.any_fits(&text), fits(pattern.as_bytes(), text.as_bytes()));
    }
}
