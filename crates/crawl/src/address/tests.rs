//! Tests of addresses: the WHATWG rules, the examples of RFC 3986, each rule, and properties over hostile texts.

use proptest::prelude::*;
use proptest::sample::select;

use super::resolve::{resolve_any, resolve_plain};
use super::*;

fn normaliser() -> Normaliser {
    Normaliser::new(NormaliserRules::default()).unwrap()
}

fn with(change: impl FnOnce(&mut NormaliserRules)) -> Normaliser {
    let mut rules = NormaliserRules::default();
    change(&mut rules);
    Normaliser::new(rules).unwrap()
}

fn normal(text: &str) -> String {
    normaliser().normalise(None, text).unwrap().into_string()
}

fn refused_by(normaliser: &Normaliser, text: &str) -> &'static str {
    normaliser.normalise(None, text).unwrap_err().rule()
}

#[test]
fn examples_of_rfc_3986_section_5_4_resolve() {
    let base = Url::parse("http://a/b/c/d;p?q").unwrap();
    let examples = [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g/"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q"),
        ("g#s", "http://a/b/c/g"),
        ("g?y#s", "http://a/b/c/g?y"),
        (";x", "http://a/b/c/;x"),
        ("g;x", "http://a/b/c/g;x"),
        ("g;x?y#s", "http://a/b/c/g;x?y"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../", "http://a/"),
        ("../../g", "http://a/g"),
        // The abnormal ones.
        ("../../../g", "http://a/g"),
        ("../../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        (".g", "http://a/b/c/.g"),
        ("g..", "http://a/b/c/g.."),
        ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/./x", "http://a/b/c/g?y/./x"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("g#s/./x", "http://a/b/c/g"),
        // Browsers, and so the WHATWG rules, take the backward-compatible reading here.
        ("http:g", "http://a/b/c/g"),
    ];
    for (reference, expected) in examples {
        let address = normaliser().normalise(Some(&base), reference).unwrap();
        assert_eq!(address.as_str(), expected, "{reference}");
    }
    let error = normaliser().normalise(Some(&base), "g:h").unwrap_err();
    assert_eq!(error.rule(), "scheme");
}

#[test]
fn what_the_whatwg_rules_ask_for() {
    for (text, expected) in [
        ("  http://example.com/a b\n", "http://example.com/a%20b"),
        ("HTTP://EXAMPLE.com:80", "http://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:0443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http:\\\\example.com\\a\\b", "http://example.com/a/b"),
        ("http://user:secret@example.com/", "http://example.com/"),
        (
            "http://bücher.example/ä?ö",
            "http://xn--bcher-kva.example/%C3%A4?%C3%B6",
        ),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[0:0::1]:8080/", "http://[::1]:8080/"),
        ("http://example.com/%2e%2E/a", "http://example.com/a"),
        ("http://ex\tample.com/\na", "http://example.com/a"),
        ("http://example.com?x", "http://example.com/?x"),
        ("http://example.com/'?'", "http://example.com/'?%27"),
        ("http://EX%41mple.com/", "http://example.com/"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
    }
    for text in [
        "http://",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://[::1/",
        "/relative",
        "",
        "http://1.2.3.4.5.300/",
    ] {
        assert_eq!(refused_by(&normaliser(), text), "syntax", "{text}");
    }
    for text in [
        "mailto:ann@example.com",
        "javascript:alert(1)",
        "ftp://example.com/",
        "data:,x",
    ] {
        assert_eq!(refused_by(&normaliser(), text), "scheme", "{text}");
    }
}

#[test]
fn safe_normalisations_of_rfc_3986_section_6() {
    for (text, expected) in [
        (
            "http://example.com/%7ea%2db%5Fc%2e",
            "http://example.com/~a-b_c.",
        ),
        (
            "http://example.com/a%c2%b1b%2f",
            "http://example.com/a%C2%B1b%2F",
        ),
        (
            "http://example.com/a?b%2Dc=%26%3d",
            "http://example.com/a?b-c=%26%3D",
        ),
        ("http://example.com/a/../b/./c", "http://example.com/b/c"),
        ("http://example.com", "http://example.com/"),
        // A `%` that begins no escape must not become part of one.
        ("http://example.com/%%34%31", "http://example.com/%2541"),
        ("http://example.com/100%", "http://example.com/100%25"),
        ("http://example.com/%4", "http://example.com/%254"),
        ("http://example.com/%zz", "http://example.com/%25zz"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
    }
}

#[test]
fn tracking_parameters_and_sessions_go_unless_told_otherwise() {
    for (text, expected) in [
        (
            "http://e.com/?utm_source=a&b=1&gclid=2",
            "http://e.com/?b=1",
        ),
        ("http://e.com/?UTM_Source=a&fbclid=x", "http://e.com/"),
        ("http://e.com/?utm%5Fsource=a", "http://e.com/"),
        ("http://e.com/?PHPSESSID=1&x", "http://e.com/?x"),
        ("http://e.com/?sid=7", "http://e.com/?sid=7"),
        ("http://e.com/?sid=0123456789abcdef", "http://e.com/"),
        (
            "http://e.com/a;jsessionid=1A2B/b;v=2;JSESSIONID=3?c",
            "http://e.com/a/b;v=2?c",
        ),
        // It would become a dot segment, which means something else.
        (
            "http://e.com/a/..;jsessionid=1/b",
            "http://e.com/a/..;jsessionid=1/b",
        ),
        ("http://e.com/?&a", "http://e.com/?&a"),
        ("http://e.com/?", "http://e.com/?"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
    }
    let text = "http://e.com/a;jsessionid=1?utm_source=a&PHPSESSID=1";
    let neither = with(|rules| {
        rules.tracking_removed = false;
        rules.sessions_removed = false;
    });
    assert_eq!(neither.normalise(None, text).unwrap().as_str(), text);
    let more = with(|rules| rules.parameters_removed = vec!["ref".into(), "my_*".into()]);
    let address = more.normalise(None, "http://e.com/?ref=1&my_a=2&refs=3");
    assert_eq!(address.unwrap().as_str(), "http://e.com/?refs=3");
}

#[test]
fn sorting_and_index_files_are_off_unless_asked_for() {
    let text = "http://e.com/a/index.html?b=2&a=9&b=1&a";
    assert_eq!(normal(text), text);
    let both = with(|rules| {
        rules.query_sorted = true;
        rules.index_files_removed = true;
    });
    let address = both.normalise(None, text).unwrap();
    assert_eq!(address.as_str(), "http://e.com/a/?a=9&a&b=2&b=1");
    let address = both.normalise(None, "http://e.com/Default.ASPX").unwrap();
    assert_eq!(address.as_str(), "http://e.com/");
    let address = both.normalise(None, "http://e.com/myindex.html").unwrap();
    assert_eq!(address.as_str(), "http://e.com/myindex.html");
}

#[test]
fn limits_refuse_and_name_themselves() {
    let long = format!("http://e.com/{}", "a".repeat(2_048));
    assert_eq!(refused_by(&normaliser(), &long), "url_bytes_max");
    let endless = format!("data:,{}", "a".repeat(1 << 20));
    assert_eq!(refused_by(&normaliser(), &endless), "url_bytes_max");
    let longest = format!("http://e.com/{}", "a".repeat(2_048 - 13));
    assert_eq!(normal(&longest), longest);

    assert_eq!(
        normal("http://e.com/a/b/a/b/a/b"),
        "http://e.com/a/b/a/b/a/b"
    );
    let error = normaliser()
        .normalise(None, "http://e.com/a/b/a/b/a/b/a")
        .unwrap_err();
    assert_eq!(error.rule(), "segment_repeats_max");
    assert_eq!(
        error.to_string(),
        "its path has the segment `a` 4 times, and segment_repeats_max is 3"
    );
    assert_eq!(
        refused_by(&normaliser(), "http://e.com/////x"),
        "segment_repeats_max"
    );

    let deep = |segments: usize| {
        let path: String = (0..segments).map(|index| format!("/{index}")).collect();
        format!("http://e.com{path}")
    };
    assert_eq!(normal(&deep(32)), deep(32));
    assert_eq!(refused_by(&normaliser(), &deep(33)), "path_segments_max");

    let query = |parameters: usize| format!("http://e.com/?{}a", "a&".repeat(parameters - 1));
    assert_eq!(normal(&query(32)), query(32));
    assert_eq!(
        refused_by(&normaliser(), &query(33)),
        "query_parameters_max"
    );
}

#[test]
fn rules_that_cannot_be_followed_are_refused() {
    for (change, field) in [
        (r#"{"url_bytes_max": 1}"#, "url_bytes_max"),
        (
            r#"{"parameters_removed": ["a", "*"]}"#,
            "parameters_removed[1]",
        ),
        (
            r#"{"parameters_removed": ["a*b"]}"#,
            "parameters_removed[0]",
        ),
    ] {
        let rules: NormaliserRules = serde_json::from_str(change).unwrap();
        assert_eq!(Normaliser::new(rules).unwrap_err().field, field);
    }
}

#[test]
fn an_address_knows_its_parts() {
    let address = normaliser()
        .normalise(None, "https://Example.com:8443/a?b#c")
        .unwrap();
    assert_eq!(address.host(), "example.com:8443");
    assert_eq!(address.path_and_query(), "/a?b");
    let same = normaliser()
        .normalise(None, "https://example.com:8443/%61?b")
        .unwrap();
    assert_eq!(address.fingerprint(), same.fingerprint());
    assert_ne!(
        address.fingerprint(),
        normaliser()
            .normalise(None, "https://example.com/a?b")
            .unwrap()
            .fingerprint()
    );
}

/// Bases of all kinds, also such that nothing can be resolved against.
fn bases() -> impl Strategy<Value = Option<Url>> {
    select(vec![
        "",
        "http://example.com",
        "http://example.com/a/b%7ec/d;p=1?q=%41#f",
        "https://example.com:8443/a//b/",
        "https://user:secret@example.com/a/b",
        "http://127.0.0.1:8080/x/y?z",
        "http://[::1]/x",
        "https://xn--bcher-kva.example/%2F/",
        "ftp://example.com/a",
        "mailto:ann@example.com",
    ])
    .prop_map(|text| Url::parse(text).ok())
}

const PIECES: &[&str] = &[
    "http://",
    "https://",
    "http:",
    "https:/",
    "HTTP://",
    "//",
    "/",
    "/",
    "/",
    "\\",
    "?",
    "?",
    "#",
    "..",
    ".",
    "../",
    "./",
    "/.",
    "/..",
    "%2e",
    "%2E%2e",
    "%7E",
    "%41",
    "%4",
    "%",
    "%2f",
    "%c3%A4",
    ":",
    ":80",
    ":443",
    ":8080",
    "@",
    "a",
    "b",
    "A",
    "example.com",
    "127.0.0.1",
    "0x7f",
    "1",
    "[::1]",
    "xn--",
    "xn--bcher-kva",
    "-",
    "--",
    "_",
    "ä",
    "日本",
    " ",
    "\t",
    "\n",
    "\0",
    "\"",
    "<",
    ">",
    "`",
    "'",
    "{",
    "}",
    "|",
    "^",
    "[",
    "]",
    ";",
    ";jsessionid=1",
    "&",
    "=",
    "utm_source=1",
    "PHPSESSID=2",
    "a=1",
    "index.html",
    "~",
    "!",
    "$",
    "*",
    "(",
    ")",
    "+",
    ",",
    "com",
    "http",
    "javascript:",
    "\u{ad}",
    "\u{3002}",
];

/// Texts of which some are plain references and some are hostile.
fn references() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(select(PIECES), 0..12).prop_map(|pieces| pieces.concat());
    let plain = "(https?://|//)?([a-z0-9.-]{0,12}(:[0-9]{1,5})?)?(/[a-zA-Z0-9._%~-]{0,6}){0,5}(\\?[a-z0-9=&%;/?]{0,12})?(#[a-z]{0,3})?";
    let relative =
        "(\\.\\./|\\./){0,4}[a-z0-9.:%]{0,6}(/[a-z0-9.%]{0,4}){0,3}(\\?[a-zA-Z0-9=&'{}|]{0,9})?";
    let origin = "(http://example\\.com|https://example\\.com:8443|http://127\\.0\\.0\\.1:8080|http://\\[::1\\])[a-z0-9:@/?#.%]{0,8}";
    let anything = ".{0,24}";
    prop_oneof![3 => pieces, 3 => plain, 2 => relative, 2 => origin, 1 => anything]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn the_short_way_gives_what_the_long_way_gives(base in bases(), text in references()) {
        let (mut short, mut long) = (String::new(), String::new());
        if let Some(resolved) = resolve_plain(base.as_ref(), &text, &mut short) {
            let expected = resolve_any(base.as_ref(), &text, &mut long);
            prop_assert_eq!(expected, Ok(resolved));
            prop_assert_eq!(&short, &long);
        }
    }

    #[test]
    fn normalising_twice_changes_nothing(base in bases(), text in references(), sorted: bool) {
        let normaliser = with(|rules| {
            rules.query_sorted = sorted;
            rules.index_files_removed = sorted;
        });
        if let Ok(once) = normaliser.normalise(base.as_ref(), &text) {
            let twice = normaliser.normalise(None, once.as_str()).unwrap();
            prop_assert_eq!(&once, &twice);
            let url = Url::parse(once.as_str()).unwrap();
            prop_assert_eq!(url.as_str(), once.as_str());
            prop_assert_eq!(&url[url::Position::BeforeHost..url::Position::AfterPort], once.host());
            prop_assert!(once.as_str().len() <= 2_048);
        }
    }

    #[test]
    fn a_buffer_used_again_gives_the_same(base in bases(), texts in prop::collection::vec(references(), 1..5)) {
        let (normaliser, mut buffer) = (normaliser(), AddressBuffer::default());
        for text in texts {
            let alone = normaliser.normalise(base.as_ref(), &text);
            let again = normaliser.normalise_into(base.as_ref(), &text, &mut buffer);
            prop_assert_eq!(alone, again.map(|address| address.to_address()));
        }
    }
}

/// A short way that takes nothing would pass the property above.
#[test]
fn the_short_way_takes_plain_references() {
    let base = Url::parse("http://127.0.0.1:8080/a/b").unwrap();
    for text in [
        "https://www.example.com/a/b.html?c=d&e=%20#f",
        "http://127.0.0.1:8080/x",
        "//cdn.example.com/x",
        "/a/b-c_d~e/",
        "x/y.html",
        "../x",
        "./x?y",
        "?page=2",
        "#top",
        "",
        "httpd.html",
    ] {
        let mut out = String::new();
        assert!(
            resolve_plain(Some(&base), text, &mut out).is_some(),
            "{text}"
        );
    }
}
