//! What every store does, whatever is behind it.

use bytes::Bytes;
use crawl::store::{
    ExportForm, ExportOf, Order, PageFilter, PageRow, Place, Reader, RefusalRow, Settings, Store,
    StoreError, Why,
};
use serde_json::Value;

pub fn page(number: u32) -> PageRow {
    let url = format!("https://site{}.example/pages/{number}", number % 3);
    PageRow {
        final_url: url.clone(),
        host: format!("site{}.example", number % 3),
        url,
        depth: number % 5,
        from: (number > 0).then(|| "https://site0.example/".to_owned()),
        status: if number.is_multiple_of(10) { 404 } else { 200 },
        mime: Some(["text/html", "image/png"][number as usize % 2].to_owned()),
        charset: Some("utf-8".to_owned()),
        size: u64::from(number) * 100,
        fetched_at: 1_000_000 + i64::from(number),
        took_ms: 12,
        node: "node-1".to_owned(),
        title: Some(format!("Page {number} of bees")),
        language: Some("eng".to_owned()),
        description: None,
        hash: Some(format!("{number:032x}")),
        simhash: Some(format!("{number:016x}")),
        headers: Some(r#"{"content-type":"text/html"}"#.to_owned()),
        fields: Some(r#"{"price":7}"#.to_owned()),
        fetches: 0,
        text: Some(format!(
            "The number {number} flies over the meadow, word{number}."
        )),
        body: Some(Bytes::from(format!("<p>{number}</p>").repeat(100))),
    }
}

pub fn pages(numbers: std::ops::Range<u32>) -> Vec<PageRow> {
    numbers.map(page).collect()
}

pub fn refusal(url: &str, rule: &str, at: i64) -> RefusalRow {
    RefusalRow {
        url: url.to_owned(),
        host: "site0.example".to_owned(),
        stage: Some("crawl/robots".to_owned()),
        rule: rule.to_owned(),
        reason: format!("the rule {rule} forbids it"),
        from: Some("https://site0.example/".to_owned()),
        depth: 2,
        at,
        node: "node-1".to_owned(),
    }
}

/// All of it, on a store that is empty.
pub async fn holds(place: &Place) {
    assert!(matches!(
        Reader::open(place).await.err(),
        Some(StoreError::Missing(_))
    ));
    let mut store = Store::open(place, Settings::default()).await.unwrap();
    store.write(&[], &[]).await.unwrap();
    let mut reader = Reader::open(place).await.unwrap();

    rows_come_back(&mut store, &mut reader).await;
    what_is_written_twice_is_there_once(&mut store, &mut reader).await;
    an_unchanged_page_keeps_its_content(&mut store, &mut reader).await;
    refusals_give_way(&mut store, &mut reader).await;
    listings_go_through_all(&mut reader).await;
    filters_fit(&mut reader).await;
    counts_are_right(&mut reader).await;
    exports_have_all(&mut store, &mut reader).await;
    words_are_found(place, store, &mut reader).await;
}

async fn rows_come_back(store: &mut Store, reader: &mut Reader) {
    let mut written = pages(0..50);
    written[7].final_url = "https://site1.example/moved".to_owned();
    written[8].text = Some("zero \0 in it, «quotes», 🐝".to_owned());
    store.write(&written, &[]).await.unwrap();
    for (number, row) in written.iter().enumerate() {
        let stored = reader.page(&row.url).await.unwrap().unwrap();
        let body = reader.body(&row.url, 1 << 20).await.unwrap();
        let mut expected = PageRow {
            body: None,
            fetches: 1,
            ..row.clone()
        };
        if number == 8 {
            let text = stored.text.as_deref().unwrap();
            assert!(text.ends_with("in it, «quotes», 🐝"), "{text}");
            expected.text = stored.text.clone();
        }
        assert_eq!(stored, expected);
        assert_eq!(Bytes::from(body.unwrap()), row.body.clone().unwrap());
    }
    let short = reader.body(&written[3].url, 10).await.unwrap_err();
    assert!(
        matches!(short, StoreError::TooLong { bytes: 800, .. }),
        "{short}"
    );
    assert_eq!(reader.page("https://nowhere.example/").await.unwrap(), None);
    assert_eq!(
        reader.body("https://nowhere.example/", 1).await.unwrap(),
        None
    );
    let ended = reader
        .page_ending_at("https://site1.example/moved")
        .await
        .unwrap();
    assert_eq!(ended.unwrap().url, written[7].url);
}

async fn what_is_written_twice_is_there_once(store: &mut Store, reader: &mut Reader) {
    let url = page(1).url;
    // The same turn again.
    store.write(&[page(1), page(1)], &[]).await.unwrap();
    store.write(&[page(1)], &[]).await.unwrap();
    assert_eq!(reader.page(&url).await.unwrap().unwrap().fetches, 1);
    // Another fetch, with other content and without a body.
    let again = PageRow {
        fetched_at: 2_000_000,
        text: Some("something else".to_owned()),
        body: None,
        ..page(1)
    };
    store
        .write(std::slice::from_ref(&again), &[])
        .await
        .unwrap();
    let stored = reader.page(&url).await.unwrap().unwrap();
    assert_eq!(
        stored,
        PageRow {
            fetches: 2,
            ..again
        }
    );
    assert_eq!(reader.body(&url, 1 << 20).await.unwrap(), None);
    assert_eq!(reader.counts().await.unwrap().pages, 50);
    let nothing = PageRow {
        fetched_at: 2_000_001,
        text: None,
        body: None,
        ..page(1)
    };
    store.write(&[nothing], &[]).await.unwrap();
    assert_eq!(reader.page(&url).await.unwrap().unwrap().text, None);
    store.write(&[page(1)], &[]).await.unwrap();
}

async fn an_unchanged_page_keeps_its_content(store: &mut Store, reader: &mut Reader) {
    let unchanged = |number| PageRow {
        url: page(number).url,
        host: page(number).host,
        status: 304,
        fetched_at: 3_000_000,
        node: "node-2".to_owned(),
        ..PageRow::default()
    };
    // The second one is not there yet.
    let news = unchanged(1_000);
    store
        .write(&[unchanged(2), news.clone()], &[])
        .await
        .unwrap();
    let expected = PageRow {
        fetched_at: 3_000_000,
        took_ms: 0,
        node: "node-2".to_owned(),
        fetches: 2,
        body: None,
        ..page(2)
    };
    assert_eq!(reader.page(&page(2).url).await.unwrap(), Some(expected));
    assert!(reader.body(&page(2).url, 1 << 20).await.unwrap().is_some());
    let stored = reader.page(&news.url).await.unwrap().unwrap();
    assert_eq!((stored.status, stored.fetches), (304, 1));
    // As if nothing had been, but for how often they were fetched.
    let back = PageRow {
        url: news.url.clone(),
        ..page(0)
    };
    store.write(&[page(2), back], &[]).await.unwrap();
}

async fn refusals_give_way(store: &mut Store, reader: &mut Reader) {
    let (url, other) = (
        "https://site0.example/private",
        "https://site0.example/deep",
    );
    let first = [refusal(url, "robots", 10), refusal(other, "seen", 10)];
    store.write(&[], &first).await.unwrap();
    assert_eq!(reader.refusal(url).await.unwrap(), Some(first[0].clone()));
    // That it was seen says less; anything else says more.
    let second = [refusal(url, "seen", 20), refusal(other, "depth", 20)];
    store.write(&[], &second).await.unwrap();
    assert_eq!(reader.refusal(url).await.unwrap(), Some(first[0].clone()));
    assert_eq!(
        reader.refusal(other).await.unwrap(),
        Some(second[1].clone())
    );
    assert_eq!(
        reader.why(url).await.unwrap(),
        Why::Refused(first[0].clone())
    );
    assert_eq!(
        reader.why("https://site0.example/other").await.unwrap(),
        Why::Unknown
    );

    let fetched = PageRow {
        url: url.to_owned(),
        ..page(0)
    };
    store.write(&[fetched], &[]).await.unwrap();
    match reader.why(url).await.unwrap() {
        Why::Fetched {
            page,
            refused_since: None,
        } => assert_eq!(page.node, "node-1"),
        other => panic!("{other:?}"),
    }
    let ended = reader.why("https://site1.example/moved").await.unwrap();
    assert!(matches!(ended, Why::Fetched { page, .. } if page.url == self::page(7).url));
}

async fn listings_go_through_all(reader: &mut Reader) {
    for order in [Order::Newest, Order::Oldest, Order::Url, Order::Largest] {
        let mut filter = PageFilter {
            order,
            rows_max: Some(7),
            ..PageFilter::default()
        };
        let mut listed = Vec::new();
        loop {
            let listing = reader.pages(&filter).await.unwrap();
            assert!(listing.pages.len() <= 7);
            listed.extend(listing.pages);
            filter.after = listing.next;
            if filter.after.is_none() {
                break;
            }
        }
        let is_sorted = match order {
            Order::Newest => listed.is_sorted_by(|one, next| one.fetched_at >= next.fetched_at),
            Order::Oldest => listed.is_sorted_by_key(|page| page.fetched_at),
            Order::Url => listed.is_sorted_by(|one, next| one.url < next.url),
            Order::Largest => listed.is_sorted_by(|one, next| one.size >= next.size),
        };
        assert!(is_sorted, "{order:?}");
        assert!(listed.iter().all(|page| page.text.is_none()));
        let mut urls: Vec<String> = listed.into_iter().map(|page| page.url).collect();
        urls.sort_unstable();
        urls.dedup();
        assert_eq!(urls.len(), 52, "{order:?}");
    }
}

async fn filters_fit(reader: &mut Reader) {
    let mut count = async |filter: PageFilter| reader.pages(&filter).await.unwrap().pages.len();
    let usual = PageFilter::default;
    let filter = PageFilter {
        host: Some("site1.example".to_owned()),
        ..usual()
    };
    assert_eq!(count(filter).await, 17);
    let filter = PageFilter {
        status: Some("4xx".parse().unwrap()),
        ..usual()
    };
    assert_eq!(count(filter).await, 7);
    let filter = PageFilter {
        mime: Some("image/".to_owned()),
        ..usual()
    };
    assert_eq!(count(filter).await, 25);
    let filter = PageFilter {
        mime: Some("text/html".to_owned()),
        since: Some(1_000_040),
        ..usual()
    };
    assert_eq!(count(filter).await, 5);
    let filter = PageFilter {
        text: Some("PAGE 1".to_owned()),
        ..usual()
    };
    assert_eq!(count(filter).await, 11);
    // A sign that means something to the database means itself.
    let filter = PageFilter {
        text: Some("page_1".to_owned()),
        ..usual()
    };
    assert_eq!(count(filter).await, 0);
}

async fn counts_are_right(reader: &mut Reader) {
    let counts = reader.counts().await.unwrap();
    assert_eq!((counts.pages, counts.hosts_count), (52, 3));
    assert_eq!(counts.bytes, (0..50).sum::<u64>() * 100);
    assert_eq!(counts.hosts[0].host, "site0.example");
    assert_eq!(counts.hosts[0].pages, 19);
    let refusals: Vec<(&str, u64)> = counts
        .refusals
        .iter()
        .map(|(rule, count)| (rule.as_str(), *count))
        .collect();
    assert_eq!(refusals, [("depth", 1), ("robots", 1)]);
    assert_eq!(counts.statuses.values().sum::<u64>(), 52);
    assert!(
        counts.statuses[&200] > 1 && counts.statuses.len() > 1,
        "{counts:?}"
    );
}

async fn exports_have_all(store: &mut Store, reader: &mut Reader) {
    let formula = "=HYPERLINK(\"https://evil.example\"),\"click\"\nme";
    let nasty = PageRow {
        title: Some(formula.to_owned()),
        ..page(4)
    };
    store.write(&[nasty], &[]).await.unwrap();
    store.write(&pages(2_000..2_300), &[]).await.unwrap();

    let mut out = Vec::new();
    let written = reader.export(ExportOf::PagesWithText, ExportForm::JsonLines, &mut out);
    assert_eq!(written.await.unwrap(), 352);
    let lines: Vec<Value> = out
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 352);
    let nasty = lines
        .iter()
        .find(|line| line["url"] == page(4).url)
        .unwrap();
    assert_eq!(nasty["title"], formula);
    assert_eq!(nasty["headers"]["content-type"], "text/html");
    assert_eq!(nasty["fields"]["price"], 7);
    assert!(nasty["text"].as_str().unwrap().contains("word4"));

    let mut out = Vec::new();
    let written = reader.export(ExportOf::Pages, ExportForm::Csv, &mut out);
    assert_eq!(written.await.unwrap(), 352);
    let mut table = csv::Reader::from_reader(&out[..]);
    let names = table.headers().unwrap().clone();
    let column = |name| names.iter().position(|other| other == name).unwrap();
    assert!(!names.iter().any(|name| name == "text"));
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 352);
    let url = column("url");
    let nasty = rows.iter().find(|row| row[url] == page(4).url).unwrap();
    assert_eq!(nasty[column("title")], format!("'{formula}"));
    assert_eq!(&nasty[column("status")], "200");

    let mut out = Vec::new();
    let written = reader.export(ExportOf::Refusals, ExportForm::Csv, &mut out);
    assert_eq!(written.await.unwrap(), 2);
    assert!(
        String::from_utf8(out)
            .unwrap()
            .starts_with("url,host,stage,rule,reason")
    );

    // Part by part it is the same, wherever the parts end.
    for (form, part_bytes) in [(ExportForm::Csv, 1), (ExportForm::JsonLines, 100_000)] {
        let mut whole = Vec::new();
        let written = reader.export(ExportOf::PagesWithText, form, &mut whole);
        written.await.unwrap();
        let (mut parts, mut all, mut after) = (0, Vec::new(), None);
        loop {
            let mut part = Vec::new();
            let what = ExportOf::PagesWithText;
            let next = reader.export_part(what, form, after, part_bytes, &mut part);
            after = next.await.unwrap();
            all.extend(part);
            parts += 1;
            if after.is_none() {
                break;
            }
        }
        assert!(parts > 1 && all == whole, "{parts} parts");
    }
}

async fn words_are_found(place: &Place, store: Store, reader: &mut Reader) {
    let none = reader.search("meadow", 10).await.unwrap_err();
    assert!(matches!(none, StoreError::NoIndex(_)), "{none}");
    drop(store);
    let settings = Settings {
        search: true,
        ..Settings::default()
    };
    // What was there before is in the index, and so is what comes.
    let mut store = Store::open(place, settings).await.unwrap();
    let fresh = PageRow {
        url: "https://site0.example/fresh".to_owned(),
        text: Some("A very fresh beehive on the meadow".to_owned()),
        ..page(5)
    };
    store.write(&[fresh], &[]).await.unwrap();
    // A writer that did not ask for it keeps it up, too.
    drop(store);
    let mut store = Store::open(place, Settings::default()).await.unwrap();
    let changed = PageRow {
        fetched_at: 5_000_000,
        text: Some("Nothing grows here".to_owned()),
        ..page(6)
    };
    store.write(&[changed], &[]).await.unwrap();

    let hits = reader.search("word7", 10).await.unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].page.url, page(7).url);
    let matched = hits[0].snippet.iter().filter(|part| part.is_match);
    let matched: Vec<&str> = matched.map(|part| part.text.as_str()).collect();
    assert_eq!(matched, ["word7"]);
    let mut count = async |words: &str| reader.search(words, 1_000).await.unwrap().len();
    assert_eq!(count("fresh beehive").await, 1);
    assert_eq!(count("\"beehive fresh\"").await, 0);
    assert_eq!(count("word6").await, 0);
    assert_eq!(count("grows").await, 1);
    assert_eq!(count("word8 or word9").await, 1);
    assert_eq!(count("meadow -number").await, 1);
    for odd in [
        "",
        "-meadow",
        "\"",
        "a:b",
        "(*",
        "AND",
        "\0",
        "'; DROP TABLE pages",
    ] {
        count(odd).await;
    }
    assert_eq!(reader.search("meadow", 3).await.unwrap().len(), 3);
}
