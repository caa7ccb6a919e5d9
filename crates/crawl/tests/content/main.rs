//! The plug-ins that look into pages and that keep them, each by itself.

mod rig;
mod storing;

use std::io::Write;
use std::time::Duration;

use flows::Event;
use flows::plugins::Outputs;
use rig::{Rig, START_MS, is_held, page, plugin};
use serde_json::{Value, json};

const HOUR_MS: u64 = 3_600_000;

fn record() -> Value {
    json!({
        "url": "https://a.example/dir/page", "final_url": "https://a.example/dir/page", "host": "a.example", "depth": 2,
        "from": "https://a.example/", "status": 200, "mime": "text/html", "hash": "00", "fetched_at": 5, "headers": {},
    })
}

fn with(fields: Value) -> Value {
    let mut record = record();
    for (name, value) in fields.as_object().expect("fields") {
        record[name] = value.clone();
    }
    record
}

async fn run(id: &str, parameters: Value, pages: &[Event]) -> Rig {
    let mut rig = Rig::new(id, parameters).await;
    rig.take(pages).await;
    rig
}

/// All that came because of a page holds what the page holds.
fn assert_held(rig: &Rig) {
    assert!(!rig.out.is_empty());
    for (output, event) in &rig.out {
        assert!(is_held(event), "{output}: {event:?}");
    }
}

#[test]
fn each_says_what_it_is_and_its_examples_are_accepted() {
    for plugin in crawl::PLUGINS {
        assert!(plugin.examples().count() > 0, "{plugin:?}");
        for (_, example) in plugin.examples() {
            let checked = plugin.check(example.as_bytes());
            assert!(checked.is_ok(), "{plugin:?}: {checked:?}");
        }
        let Outputs::Named(outputs) = plugin.outputs() else {
            continue;
        };
        assert!(
            outputs.iter().all(|(_, text)| text.ends_with('.')),
            "{plugin:?}"
        );
        let descriptor = plugin.descriptor();
        let properties = &descriptor.parameters.as_ref().expect("a schema")["properties"];
        for (name, property) in properties.as_object().into_iter().flatten() {
            assert!(!property["description"].is_null(), "{plugin:?}: {name}");
        }
    }
}

#[test]
fn wrong_parameters_are_named() {
    let field = |id: &str, parameters: Value| {
        let checked = plugin(id).check(parameters.to_string().as_bytes());
        checked.expect_err("wrong parameters").field().to_owned()
    };
    assert_eq!(field("content-filter", json!({"allow": ["htm"]})), "allow");
    assert_eq!(
        field(
            "field-extractor",
            json!({"fields": {"a": {"select": "p["}}})
        ),
        "fields.a.select"
    );
    assert_eq!(
        field("field-extractor", json!({"fields": {"url": {}}})),
        "fields.url"
    );
    assert_eq!(
        field("near-duplicates", json!({"distance_max": 4})),
        "distance_max"
    );
    assert_eq!(
        field(
            "change-detector",
            json!({"shortest": "2h", "longest": "1h"})
        ),
        "longest"
    );
    assert_eq!(
        field("link-extractor", json!({"kinds": ["anchors"]})),
        "kinds[0]"
    );
}

#[tokio::test]
async fn the_content_filter_refuses_by_status_type_and_size() {
    let pages = [
        page(&record(), "<p>x"),
        page(&with(json!({"status": 404})), "<p>x"),
        page(
            &with(json!({"headers": {"content-type": "image/png"}})),
            "x",
        ),
        page(&record(), "x".repeat(101)),
        page(
            &with(
                json!({"mime": "application/x-gzip", "final_url": "https://a.example/sitemap.xml.gz?x"}),
            ),
            b"\x1f\x8b\x08\0",
        ),
        page(
            &with(json!({"headers": {"content-type": "text/xml;charset=koi8-r"}})),
            "<rss>",
        ),
    ];
    let rig = run("content-filter", json!({"body_bytes_max": 100}), &pages).await;
    assert_held(&rig);
    let passed = rig.at("out");
    let kinds: Vec<_> = passed.iter().map(|page| &page["kind"]).collect();
    assert_eq!(kinds, ["html", "xml", "xml"]);
    assert_eq!(
        (&passed[2]["mime"], &passed[2]["charset"]),
        (&json!("text/xml"), &json!("koi8-r"))
    );
    assert_eq!(&rig.events("out")[0].body().expect("a body")[..], b"<p>x");
    let refused = rig.at("refused");
    let rules: Vec<_> = refused.iter().map(|page| &page["rule"]).collect();
    assert_eq!(rules, ["status", "content", "size"]);
    assert_eq!(refused[0]["url"], record()["url"]);
    assert!(
        refused[1]["reason"]
            .as_str()
            .expect("a reason")
            .contains("image/png")
    );
    assert!(
        rig.events("refused")
            .iter()
            .all(|event| event.body().is_none())
    );
}

#[tokio::test]
async fn the_charset_decoder_makes_utf8() {
    let pages = [
        page(&with(json!({"charset": "iso-8859-1"})), b"<p>\xe9"),
        page(&record(), "\u{feff}<p>é"),
        page(&with(json!({"charset": "utf-8"})), b"<p>\xff"),
        page(
            &with(json!({"mime": "image/png"})),
            b"\x89PNG\r\n\x1a\n\xff",
        ),
    ];
    let rig = run("charset-decoder", json!({}), &pages).await;
    assert_held(&rig);
    let bodies: Vec<_> = rig
        .events("out")
        .iter()
        .map(|event| event.body().expect("a body"))
        .collect();
    assert_eq!(
        bodies,
        [
            "<p>é".as_bytes(),
            "<p>é".as_bytes(),
            "<p>\u{fffd}".as_bytes(),
            b"\x89PNG\r\n\x1a\n\xff"
        ]
    );
    let out = rig.at("out");
    assert_eq!(
        (&out[0]["charset"], &out[1]["charset"]),
        (&json!("windows-1252"), &json!("UTF-8"))
    );
    assert_eq!(
        (&out[1]["broken_sequences"], &out[2]["broken_sequences"]),
        (&Value::Null, &json!(1))
    );
}

#[tokio::test]
async fn the_link_extractor_gives_urls_by_host() {
    let html = "<base href='/b/'><link rel=canonical href='/c#x'><a href=1#y><a href='1'><a href='//c.example:8080/2'><a href='http://c.example/3' \
        rel=nofollow><a href='../4?x=1&amp;y=2'><a href='mailto:x'><img src=no.png><a href='https://C.example:443/5'>";
    let rig = run("link-extractor", json!({}), &[page(&record(), html)]).await;
    assert_held(&rig);
    let links = rig.at("links");
    let expected = [
        json!({"host": "a.example", "depth": 3, "from": "https://a.example/dir/page",
            "urls": ["https://a.example/c", "https://a.example/b/1", "https://a.example/4?x=1&y=2"]}),
        json!({"host": "c.example", "depth": 3, "from": "https://a.example/dir/page", "urls": ["https://c.example/5"]}),
        json!({"host": "c.example:8080", "depth": 3, "from": "https://a.example/dir/page", "urls": ["https://c.example:8080/2"]}),
    ];
    assert_eq!(links, expected);
    let out = &rig.at("out")[0];
    assert_eq!(
        (&out["canonical"], &out["links"], &out["noindex"]),
        (&json!("https://a.example/c"), &json!(5), &Value::Null)
    );
    let everything = json!({"kinds": ["anchor", "image"], "obey_nofollow": false});
    let rig = run("link-extractor", everything, &[page(&record(), html)]).await;
    let urls: usize = rig
        .at("links")
        .iter()
        .map(|links| links["urls"].as_array().expect("urls").len())
        .sum();
    assert_eq!(urls, 6);
}

#[tokio::test]
async fn the_link_extractor_obeys_what_pages_say_to_robots() {
    let html = "<meta name=robots content='noindex,nofollow'><a href=1>";
    let spoken = with(json!({"headers": {"x-robots-tag": "none"}}));
    for (record, html) in [(record(), html), (spoken, "<a href=1>")] {
        let rig = run("link-extractor", json!({}), &[page(&record, html)]).await;
        assert!(rig.at("links").is_empty());
        let out = &rig.at("out")[0];
        assert_eq!(
            (&out["noindex"], &out["nofollow"], &out["links"]),
            (&json!(true), &json!(true), &json!(0))
        );
        let rig = run(
            "link-extractor",
            json!({"obey_robots_meta": false}),
            &[page(&record, html)],
        )
        .await;
        assert_eq!(rig.at("links").len(), 1);
    }
}

#[tokio::test]
async fn the_link_extractor_reads_sitemaps_and_feeds() {
    let map = "<urlset><url><loc>https://a.example/1</loc></url><url><loc>https://a.example/2</loc></url></urlset>";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(map.as_bytes()).expect("packed");
    let packed = packed.finish().expect("packed");
    let xml = with(json!({"kind": "xml"}));
    let feed = "<feed><entry><link href='/1'/></entry><entry><link href='/2'/></entry></feed>";
    let text = with(json!({"kind": "text", "final_url": "https://a.example/sitemap-1.txt"}));
    let pages = [
        page(&xml, map),
        page(&xml, packed),
        page(&xml, feed),
        page(&text, "https://a.example/1\nhttps://a.example/2"),
    ];
    let rig = run("link-extractor", json!({}), &pages).await;
    let links = rig.at("links");
    assert_eq!(links.len(), 4);
    for links in links {
        assert_eq!(
            links["urls"],
            json!(["https://a.example/1", "https://a.example/2"])
        );
    }
    let many: String = (0..2_500)
        .map(|number| format!("https://a.example/{number}\n"))
        .collect();
    let rig = run("link-extractor", json!({}), &[page(&text, many)]).await;
    assert_eq!(rig.at("links").len(), 3, "events do not grow without bound");
}

#[tokio::test]
async fn the_text_extractor_adds_what_people_read() {
    let html = "<html lang=en><title>T</title><meta name=description content=D><p>Words";
    let rig = run("text-extractor", json!({}), &[page(&record(), html)]).await;
    assert_held(&rig);
    let out = &rig.at("out")[0];
    let found = ["title", "text", "description", "language"].map(|name| out[name].as_str());
    assert_eq!(found, [Some("T"), Some("Words"), Some("D"), Some("en")]);
    assert!(rig.events("out")[0].body().is_some());
    let rig = run(
        "text-extractor",
        json!({"drop_body": true}),
        &[page(&record(), html)],
    )
    .await;
    assert_held(&rig);
    assert!(rig.events("out")[0].body().is_none());
}

#[tokio::test]
async fn the_field_extractor_makes_records() {
    let parameters = json!({"each": "li", "fields": {
        "name": {"select": "b"}, "price": {"select": "i", "number": true}, "link": {"select": "a", "attribute": "href"},
    }});
    let html = "<ul><li><b>A</b><i>$1,299.00</i><a href=1></a><li><b>B</b></ul>";
    let rig = run("field-extractor", parameters, &[page(&record(), html)]).await;
    assert_held(&rig);
    let own = |mut fields: Value| {
        fields["url"] = record()["url"].clone();
        fields["host"] = json!("a.example");
        fields["fetched_at"] = json!(5);
        fields
    };
    let expected = [
        own(json!({"name": "A", "price": 1299.0, "link": "https://a.example/dir/1"})),
        own(json!({"name": "B", "price": null, "link": null})),
    ];
    assert_eq!(rig.at("out"), expected);
}

fn article(last: &str) -> String {
    let words: Vec<_> = (0..400)
        .map(|number| format!("word{}", number * 7_919 % 1_000))
        .collect();
    format!("{} {last}", words.join(" "))
}

fn at(path: &str, hash: &str, text: &str) -> Event {
    let url = format!("https://a.example/{path}");
    page(&with(json!({"url": url, "hash": hash, "text": text})), "")
}

#[tokio::test]
async fn near_duplicates_are_refused_with_what_they_duplicate() {
    let mut rig = Rig::new("near-duplicates", json!({})).await;
    rig.take(&[
        at("1", "h1", &article("today")),
        at("2", "h2", &article("tomorrow")),
    ])
    .await;
    rig.restart().await;
    let other: Vec<_> = article("").split(' ').rev().map(str::to_owned).collect();
    rig.take(&[
        at("3", "h1", "short"),
        at("4", "h4", &other.join(" ")),
        at("5", "h5", "short"),
        at("6", "h6", "short"),
    ])
    .await;
    assert_held(&rig);
    let passed: Vec<_> = rig
        .at("out")
        .iter()
        .map(|page| page["hash"].clone())
        .collect();
    assert_eq!(
        passed,
        ["h1", "h4", "h5", "h6"],
        "short texts are not compared"
    );
    let refused = rig.at("refused");
    assert_eq!(refused.len(), 2);
    let about = |page: &Value| (page["rule"].clone(), page["duplicate_of"].clone());
    assert_eq!(
        about(&refused[0]),
        (json!("near-duplicate"), json!("https://a.example/1"))
    );
    assert_eq!(
        about(&refused[1]),
        (json!("duplicate"), json!("https://a.example/1"))
    );
    assert_eq!(rig.at("out")[0]["simhash"].as_str().map(str::len), Some(16));
}

#[tokio::test]
async fn a_page_is_no_duplicate_of_itself_and_what_it_was_is_forgotten() {
    let mut rig = Rig::new("near-duplicates", json!({})).await;
    rig.take(&[at("1", "h1", &article("today"))]).await;
    let keys = rig.store.state.lock().len();
    rig.take(&[
        at("1", "h1", &article("today")),
        at("1", "h2", &article("tomorrow")),
    ])
    .await;
    assert_eq!(rig.at("out").len(), 3);
    let other: Vec<_> = article("").split(' ').rev().map(str::to_owned).collect();
    rig.take(&[at("1", "h3", &other.join(" "))]).await;
    assert_eq!(
        rig.store.state.lock().len(),
        keys,
        "nothing is left of what it was"
    );
    rig.take(&[at("2", "h1", &article("today"))]).await;
    assert_eq!((rig.at("out").len(), rig.at("refused").len()), (5, 0));
}

fn visit(path: &str, hash: &str) -> Event {
    at(path, hash, "")
}

#[tokio::test]
async fn changes_are_found_and_the_next_visit_is_planned() {
    let parameters = json!({"first": "8h", "shortest": "1h", "longest": "10h"});
    let mut rig = Rig::new("change-detector", parameters).await;
    rig.take(&[visit("1", "h1")]).await;
    rig.restart().await;
    rig.advance(Duration::from_millis(HOUR_MS)).await;
    rig.take(&[visit("1", "h1")]).await;
    rig.take(&[visit("1", "h2")]).await;
    let unmodified = json!({"url": "https://a.example/1", "status": 304, "hash": "none"});
    rig.take(&[page(&with(unmodified), "")]).await;
    assert_held(&rig);
    let next = |output: &str, at: usize| {
        rig.at(output)[at]["next_visit_at"]
            .as_u64()
            .expect("a time")
    };
    assert_eq!(next("new", 0), START_MS + 8 * HOUR_MS);
    let now = START_MS + HOUR_MS;
    assert_eq!(
        next("unchanged", 0),
        now + 10 * HOUR_MS,
        "12 hours are too long"
    );
    assert_eq!(next("changed", 0), now + 5 * HOUR_MS);
    assert_eq!(next("unchanged", 1), now + 15 * HOUR_MS / 2);
    assert_eq!(rig.at("unchanged")[0]["changed_at"], json!(START_MS));
    assert_eq!(rig.at("changed")[0]["changed_at"], json!(now));
}

#[tokio::test]
async fn what_is_due_comes_again_until_it_is_visited() {
    let mut rig = Rig::new("change-detector", json!({"first": "2h"})).await;
    rig.take(&[visit("1", "h1"), visit("2", "h2")]).await;
    rig.advance(Duration::from_millis(2 * HOUR_MS - 1)).await;
    assert!(rig.at("again").is_empty(), "it is not due yet");
    rig.restart().await;
    rig.advance(Duration::from_millis(1)).await;
    let again = rig.at("again");
    assert_eq!(again.len(), 1);
    assert_eq!(
        (&again[0]["host"], &again[0]["depth"], &again[0]["again"]),
        (&json!("a.example"), &json!(2), &json!(true))
    );
    assert_eq!(again[0]["urls"].as_array().map(Vec::len), Some(2));
    // One of them is visited, of the other nothing is heard.
    rig.take(&[visit("1", "h1")]).await;
    rig.advance(Duration::from_millis(2 * HOUR_MS)).await;
    assert_eq!(rig.at("again")[1]["urls"], json!(["https://a.example/2"]));
    rig.advance(Duration::from_millis(HOUR_MS)).await;
    assert_eq!(
        rig.at("again")[2]["urls"],
        json!(["https://a.example/1"]),
        "after three hours"
    );
}

#[tokio::test]
async fn a_bucket_with_much_that_is_due_takes_several_turns() {
    let mut rig = Rig::new("change-detector", json!({"first": "2h"})).await;
    let pages: Vec<_> = (0..1_200)
        .map(|number| visit(&number.to_string(), "h"))
        .collect();
    rig.take(&pages).await;
    rig.advance(Duration::from_millis(2 * HOUR_MS + 100)).await;
    let urls: usize = rig
        .at("again")
        .iter()
        .map(|event| event["urls"].as_array().expect("urls").len())
        .sum();
    assert_eq!((rig.at("again").len(), urls), (3, 1_200));
}

#[tokio::test]
async fn changes_may_be_told_by_an_expression() {
    let mut rig = Rig::new("change-detector", json!({"by": "event.text"})).await;
    rig.take(&[
        at("1", "h1", "same"),
        at("1", "h2", "same"),
        at("1", "h2", "other"),
    ])
    .await;
    let outputs: Vec<_> = rig.out.iter().map(|(output, _)| output.as_str()).collect();
    assert_eq!(outputs, ["new", "unchanged", "changed"]);
}
