use serde_json::json;

use super::*;

fn extractor(rules: serde_json::Value) -> Result<Extractor, FieldError> {
    let rules: Rules = serde_json::from_value(rules).expect("rules");
    Extractor::new(&rules)
}

fn records(rules: serde_json::Value, html: &str) -> Vec<Record> {
    let extractor = extractor(rules).expect("rules that can be used");
    let extracted = extractor.extract(html, |address| Some(format!("https://a/{address}")));
    extracted.records
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn a_page_gives_one_record() {
    let rules = json!({"fields": {
        "title": {"select": "h1"},
        "tags": {"select": ".tag", "all": true},
        "image": {"select": "img", "attribute": "src"},
        "body": {"select": "p", "html": true},
        "id": {"select": "#id", "pattern": r"no\. (\d+)"},
        "word": {"select": "#id", "pattern": "[A-Z]+"},
        "missing": {"select": "h6"},
        "none": {"select": "h6", "all": true},
        "price": {"select": "b", "number": true},
    }});
    let html = "<h1> A\n <i>b</i>c </h1><img src=x.png><p>p <b>free</b></p><i class=tag>1</i><i class=tag>2</i><b id=id>Item no. 17</b>";
    let record = records(rules, html).remove(0);
    assert_eq!(record["title"], text("A bc"));
    assert_eq!(record["tags"], Value::List(vec![text("1"), text("2")]));
    assert_eq!(record["image"], text("https://a/x.png"));
    assert_eq!(record["body"], text("p <b>free</b>"));
    assert_eq!(record["id"], text("17"));
    assert_eq!(record["word"], text("I"));
    assert_eq!(record["missing"], Value::Nothing);
    assert_eq!(record["none"], Value::List(Vec::new()));
    assert_eq!(record["price"], Value::Nothing);
}

#[test]
fn each_element_gives_a_record_of_its_own() {
    let rules = json!({"each": "li", "records_max": 2, "fields": {
        "name": {"select": "a"},
        "id": {"attribute": "data-id"},
        "all": {},
    }});
    let html =
        "<a>outside</a><ul><li data-id=1><a>A</a> x<li data-id=2>B<li data-id=3><a>C</a></ul>";
    let found = records(rules, html);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0]["name"], &found[0]["id"], &found[0]["all"]),
        (&text("A"), &text("1"), &text("A x"))
    );
    assert_eq!(
        (&found[1]["name"], &found[1]["id"]),
        (&Value::Nothing, &text("2"))
    );
}

#[test]
fn values_are_bounded() {
    let rules = json!({"value_bytes_max": 3, "values_max": 2, "fields": {"p": {"select": "p", "all": true}}});
    let found = records(rules, "<p>éé<p>b<p>c");
    assert_eq!(found[0]["p"], Value::List(vec![text("é"), text("b")]));
    let rules = json!({"page_bytes_max": 5, "fields": {"p": {"select": "p"}}});
    assert_eq!(records(rules, "<p>abc")[0]["p"], text("ab"));
}

#[test]
fn errors_name_the_field_and_what_it_says() {
    let error = |rules| {
        let error = extractor(rules).expect_err("rules that cannot be used");
        format!("{}: {error}", error.place())
    };
    let selector = error(json!({"fields": {"price": {"select": "p["}}}));
    assert!(
        selector.starts_with("fields.price.select: \"p[\""),
        "{selector}"
    );
    assert!(error(json!({"each": ">>", "fields": {"a": {}}})).starts_with("each: "));
    assert!(error(json!({"fields": {"a": {"pattern": "("}}})).starts_with("fields.a.pattern: "));
    assert!(
        error(json!({"fields": {"a": {"html": true, "attribute": "x"}}})).starts_with("fields.a: ")
    );
    assert!(error(json!({"fields": {}})).starts_with("fields: "));
}

/// An extractor is made once and used by a worker that may move between threads.
#[test]
fn extractors_can_be_sent() {
    fn is_send<T: Send>() {}
    is_send::<Extractor>();
}

/// Trees of pages that nest without end take more than linear time, so time is bounded.
#[test]
fn nasty_pages_end() {
    let fields = json!({"p": {"select": "p > b a"}, "all": {"html": true}, "texts": {"select": "div", "all": true}});
    let rules = json!({"fields": fields, "value_bytes_max": 10, "page_ms_max": 100});
    let extractor = extractor(rules).expect("rules that can be used");
    let mut cut = 0;
    for piece in ["<b>", "<a>", "<div>", "<p><b>", "<b><i></b>", "<svg>"] {
        let html = piece.repeat(500_000 / piece.len());
        let started = Instant::now();
        cut += usize::from(extractor.extract(&html, |_| None).is_cut);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(30), "{piece} took {took:?}");
    }
    assert!(cut > 0, "some of them would have taken longer");
    assert!(!extractor.extract("<p>short", |_| None).is_cut);
}
