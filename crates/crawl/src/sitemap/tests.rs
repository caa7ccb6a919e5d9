use proptest::prelude::*;

use super::*;

fn pages(listed: &Listed) -> Vec<(&str, EntryKind, Option<i64>)> {
    let entries = listed.entries.iter();
    entries
        .map(|entry| (&*entry.address, entry.kind, entry.modified_ms))
        .collect()
}

fn check(text: &str, form: Form, expected: &[(&str, EntryKind, Option<i64>)]) {
    let listed = read_xml(text, &Limits::default());
    assert_eq!(listed.stopped, None, "{text}");
    assert_eq!(
        (listed.form, pages(&listed)),
        (form, expected.to_vec()),
        "{text}"
    );
}

const DAY: i64 = 86_400_000;

#[test]
fn sitemaps_are_read() {
    check(
        "<?xml version='1.0'?><?xml-stylesheet href='no.xsl'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\
         <url><loc>\n https://a/1 </loc><lastmod>1970-01-02</lastmod><image:image><image:loc>no</image:loc></image:image></url>\
         <url><lastmod>never</lastmod><loc><![CDATA[https://a/2?x&y]]></loc><xhtml:link rel='alternate' hreflang='de' href='https://a/de'/></url>\
         <url><loc>https://a/3?x=1&y=2&amp;z=&#51;</loc></url><url></url></urlset>",
        Form::Pages,
        &[
            ("https://a/1", EntryKind::Page, Some(DAY)),
            ("https://a/de", EntryKind::Page, None),
            ("https://a/2?x&y", EntryKind::Page, None),
            ("https://a/3?x=1&y=2&z=3", EntryKind::Page, None),
        ],
    );
    check(
        "<s:sitemapindex><s:sitemap><s:lastmod>1970-01-01</s:lastmod></s:sitemap><sitemap><loc>m.xml.gz</loc></sitemap></s:sitemapindex>",
        Form::Index,
        &[("m.xml.gz", EntryKind::Sitemap, None)],
    );
}

#[test]
fn feeds_are_read() {
    check(
        "<rss version='2.0'><channel><link>https://a/</link><atom:link rel='self' href='https://a/feed'/>\
         <item><title>T &nbsp; x</title><link>https://a/1</link><guid>https://a/g1</guid><pubDate>Fri, 02 Jan 1970 00:00:00 GMT</pubDate></item>\
         <item><guid>https://a/g2</guid></item><item><guid isPermaLink='false'>17</guid></item></channel></rss>",
        Form::Rss,
        &[
            ("https://a/", EntryKind::Page, None),
            ("https://a/1", EntryKind::Page, Some(DAY)),
            ("https://a/g2", EntryKind::Page, None),
        ],
    );
    check(
        "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/'/><link rel='self' href='/feed'/><link rel='next' href='/feed?page=2'/>\
         <entry><link rel='edit' href='/no'/><link href='/1?a&amp;b'/><updated>1970-01-02T00:00:00Z</updated></entry></feed>",
        Form::Atom,
        &[
            ("/", EntryKind::Page, None),
            ("/feed?page=2", EntryKind::Feed, None),
            ("/1?a&b", EntryKind::Page, Some(DAY)),
        ],
    );
    check(
        "<rdf:RDF><item><link>https://a/1</link></item></rdf:RDF>",
        Form::Rss,
        &[("https://a/1", EntryKind::Page, None)],
    );
}

#[test]
fn references_of_other_documents_are_found() {
    check(
        "<?xml-stylesheet href='no.xsl'?><doc><a xlink:href='1'/><b href=' 2 '>t</b><c href='#here'/></doc>",
        Form::Xml,
        &[("1", EntryKind::Page, None), ("2", EntryKind::Page, None)],
    );
}

#[test]
fn plain_text_is_read() {
    let listed = read_text(
        "https://a/1\r\n\n# note\n  HTTP://a/2\nftp://a/3\né",
        &Limits::default(),
    );
    let addresses: Vec<_> = listed.entries.iter().map(|entry| &*entry.address).collect();
    assert_eq!(addresses, ["https://a/1", "HTTP://a/2"]);
}

fn stopped(text: &str, limits: &Limits) -> (usize, Option<Stopped>) {
    let listed = read_xml(text, limits);
    (listed.entries.len(), listed.stopped)
}

#[test]
fn everything_is_bounded_and_what_was_found_counts() {
    let few = Limits {
        entries_max: 2,
        depth_max: 5,
        address_bytes_max: 10,
        document_bytes_max: 500,
    };
    let url = "<url><loc>https://a</loc></url>";
    let map = |urls: usize| format!("<urlset>{}</urlset>", url.repeat(urls));
    assert_eq!(stopped(&map(2), &few), (2, None));
    assert_eq!(
        stopped(&map(3), &few),
        (2, Some(Stopped::TooMany { entries_max: 2 }))
    );
    let many = Limits {
        entries_max: 100,
        ..few.clone()
    };
    let (found, reason) = stopped(&map(100), &many);
    assert_eq!(
        (found, reason),
        (
            15,
            Some(Stopped::TooLong {
                document_bytes_max: 500
            })
        )
    );
    assert_eq!(
        stopped(&"<a>".repeat(9), &few).1,
        Some(Stopped::TooDeep { depth_max: 5 })
    );
    assert_eq!(
        stopped(
            "<urlset><url><loc>https://a/too/long</loc></url></urlset>",
            &few
        ),
        (0, None)
    );
    assert!(matches!(
        stopped(&format!("<urlset>{url}<url></b>"), &few),
        (1, Some(Stopped::Broken { .. }))
    ));
}

#[test]
fn entities_of_documents_are_refused() {
    let bomb = "<!DOCTYPE x [<!ENTITY a 'https://a/'>]><urlset><url><loc>https://b/</loc></url><url><loc>&a;</loc></url></urlset>";
    let (found, reason) = stopped(bomb, &Limits::default());
    assert_eq!(found, 1);
    assert!(matches!(reason, Some(Stopped::Entity { name, .. }) if name == "a"));
}

proptest! {
    #[test]
    fn any_text_can_be_read(text in "(<|>|/|&|;|urlset|url|loc|feed|rss|link|item| |href='x'|\\]\\]>|<!\\[CDATA\\[|[a-zé]){0,40}") {
        read_xml(&text, &Limits::default());
        read_text(&text, &Limits::default());
        super::time::read(&text);
    }
}
