use proptest::prelude::*;
use scraper::{Html, Selector};

use super::*;

fn all() -> Kinds {
    Kinds::default().and(Kinds::of(&[
        LinkKind::Image,
        LinkKind::Media,
        LinkKind::Script,
        LinkKind::Stylesheet,
        LinkKind::Icon,
    ]))
}

fn found_by(html: &str, rules: &Rules) -> Found {
    let mut found = Found::default();
    extract(html.as_bytes(), rules, &mut found);
    found
}

fn links(html: &str) -> Vec<(LinkKind, String)> {
    let rules = Rules {
        kinds: all(),
        ..Rules::default()
    };
    let found = found_by(html, &rules);
    let links = found.links();
    links
        .map(|link| (link.kind, link.address.to_owned()))
        .collect()
}

fn check(html: &str, expected: &[(LinkKind, &str)]) {
    let found = links(html);
    let found: Vec<_> = found
        .iter()
        .map(|(kind, address)| (*kind, address.as_str()))
        .collect();
    assert_eq!(found, expected, "{html}");
}

#[test]
fn every_element_that_links_is_known() {
    use LinkKind::*;
    check("<a href=x>", &[(Anchor, "x")]);
    check("<MAP><AREA HREF='x'>", &[(Area, "x")]);
    check(
        "<iframe src=x></iframe><frame src=y>",
        &[(Frame, "x"), (Frame, "y")],
    );
    check(
        "<img src=x srcset='y 1x, z 2x'>",
        &[(Image, "x"), (Image, "y"), (Image, "z")],
    );
    check(
        "<picture><source srcset='a, b'>",
        &[(Image, "a"), (Image, "b")],
    );
    check(
        "<video src=x poster=y><source src=z><track src=t>",
        &[(Media, "x"), (Image, "y"), (Media, "z"), (Media, "t")],
    );
    check("<script src=x></script>", &[(Script, "x")]);
    check(
        "<object data=x><embed src=y>",
        &[(Media, "x"), (Media, "y")],
    );
    check(
        "<meta http-equiv=Refresh content='0; url=x'>",
        &[(Refresh, "x")],
    );
    check("<noscript><a href=x></noscript>", &[(Anchor, "x")]);
    check("<form action=x method=get><input src=y></form>", &[]);
    check("<a href>", &[]);
}

#[test]
fn relations_are_told_apart() {
    use LinkKind::*;
    check("<link rel=canonical href=x>", &[(Canonical, "x")]);
    check(
        "<link rel=next href=x><link rel=PREV href=y>",
        &[(Next, "x"), (Previous, "y")],
    );
    check(
        "<link rel=alternate hreflang=de href=x>",
        &[(Alternate, "x")],
    );
    check(
        "<link rel=alternate type='application/rss+xml; charset=utf-8' href=x>",
        &[(Feed, "x")],
    );
    check(
        "<link rel='alternate stylesheet' href=x>",
        &[(Stylesheet, "x")],
    );
    check(
        "<link rel=sitemap href=x><link rel='shortcut icon' href=y>",
        &[(Sitemap, "x"), (Icon, "y")],
    );
    check(
        "<link rel=preconnect href=x><link rel=dns-prefetch href=y>",
        &[],
    );
    check("<link rel=license href=x><link href=y>", &[(Related, "x")]);
}

#[test]
fn addresses_are_decoded_and_trimmed() {
    use LinkKind::*;
    check(
        "<a href='\n x?a=1&amp;b=2&copy=3 \t'>",
        &[(Anchor, "x?a=1&b=2&copy=3")],
    );
    check("<a href='x\ny&#x20;'>", &[(Anchor, "xy")]);
    check("<a href=first href=second>", &[(Anchor, "first")]);
    check("<a href='&#32;&#106;avascript:x'>", &[]);
}

#[test]
fn what_leads_nowhere_is_left_out_and_counted() {
    let html = "<a href='javascript:x'><a href=mailto:a@b><a href='data:text/html,x'><a href=tel:1><a href='#top'><a href=''>\
        <a href=' JavaScript:x'><a href=HTTPS://a/><a href=http:b><a href=//c><a href=d:e/f><a href=g/h:i><a href=?q:r>";
    let found = found_by(html, &Rules::default());
    let links: Vec<_> = found.links().map(|link| link.address).collect();
    assert_eq!(links, ["HTTPS://a/", "http:b", "//c", "g/h:i", "?q:r"]);
    assert_eq!(found.left_out, 8);
}

#[test]
fn what_the_page_says_of_itself_is_found() {
    let html = "<base target=x><base href='/b/'><base href='/c/'><link rel=canonical href=' /d '><link rel=canonical href=/e>\
        <meta name=Robots content='NOINDEX, max-snippet:5'><a href=x rel='noopener UGC'><a href=y rel=me>";
    let found = found_by(html, &Rules::default());
    assert_eq!(found.base(), Some("/b/"));
    assert_eq!(found.canonical(), Some("/d"));
    assert!(found.robots.is_noindex && !found.robots.is_nofollow);
    let anchors: Vec<_> = found
        .links()
        .filter(|link| link.kind == LinkKind::Anchor)
        .map(|link| link.is_nofollow)
        .collect();
    assert_eq!(anchors, [true, false]);
}

#[test]
fn one_robot_can_be_spoken_to_alone() {
    let robots = |name: &str| {
        let html = format!("<meta content=none name={name}>");
        found_by(&html, &Rules::default()).robots
    };
    assert!(robots("hivewire").is_nofollow && robots("hivewire").is_noindex);
    assert_eq!(robots("otherbot"), RobotsRules::default());
    assert_eq!(robots("description"), RobotsRules::default());
}

#[test]
fn everything_is_bounded() {
    let rules = Rules {
        links_max: 3,
        address_bytes_max: 10,
        ..Rules::default()
    };
    let html = "<a href=12345678901>".to_owned() + &"<a href=x>".repeat(5);
    let found = found_by(&html, &rules);
    assert_eq!(
        (found.links().len(), found.left_out, found.is_cut),
        (3, 1, true)
    );
    let few = found_by("<a href=x>", &rules);
    assert!(!few.is_cut);
}

#[test]
fn nothing_is_left_of_the_page_before() {
    let mut found = found_by(
        "<base href=b><link rel=canonical href=c><meta name=robots content=none><a href=x>",
        &Rules::default(),
    );
    extract(b"<a href=y>", &Rules::default(), &mut found);
    assert_eq!((found.base(), found.canonical()), (None, None));
    assert_eq!(found.robots, RobotsRules::default());
    assert_eq!(
        found.links().map(|link| link.address).collect::<Vec<_>>(),
        ["y"]
    );
}

const PIECES: &[&str] = &[
    "<p>",
    "</p>",
    "<div class=\"a b\">",
    "</div>",
    "text & more",
    "<!-- <a href=no> -->",
    "<ul><li>",
    "</ul>",
    "<b>",
    "</b>",
    "<br/>",
    "<a href=\"/one?x=1&amp;y=2\">",
    "<a class=x href='two' rel=nofollow>",
    "<a href=three>",
    "</a>",
    "<a name=here>",
    "<script>document.write('<a href=no>')</script>",
    "<style>a{}</style>",
    "<textarea><a href=no></textarea>",
    "<a\nhref = \"/four\" >",
    "<a href=five/>",
    "<A HREF=six>",
    "<a title='>' href=seven>",
    "<a href=\"eight",
    "\">",
    "<table><tr><td>",
    "</td></tr></table>",
    "<a href='ni ne&#33;'>",
    "é",
    "<area href=ten>",
    "<img src=x alt='<a href=no>'>",
    "<a href=eleven href=no>",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// A tree that is built by html5ever has the same links; it may have some of them twice, where it repairs the nesting.
    #[test]
    fn the_links_are_those_of_a_tree(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        let html = pieces.concat();
        let mut ours: Vec<_> = links(&html).into_iter()
            .filter(|(kind, _)| matches!(kind, LinkKind::Anchor | LinkKind::Area))
            .map(|(_, address)| address)
            .collect();
        let selector = Selector::parse("a[href], area[href]").expect("a selector");
        let tree = Html::parse_document(&html);
        let mut theirs: Vec<_> = tree.select(&selector)
            .filter_map(|element| element.attr("href"))
            .map(|address| address.trim().replace('\n', ""))
            .filter(|address| !address.is_empty())
            .collect();
        ours.sort();
        ours.dedup();
        theirs.sort();
        theirs.dedup();
        prop_assert_eq!(ours, theirs);
    }
}
