use std::cell::RefCell;
use std::time::{Duration, Instant};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token as Theirs, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use proptest::prelude::*;

use super::*;

/// What both tokenizers can be compared by.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Start(Name, Vec<(String, String)>, bool),
    End(Name),
    Text(String),
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Text(last)) => last.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

fn ours_as(html: &str, syntax: Syntax) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for token in Tokens::new(html.as_bytes(), syntax) {
        match token {
            Token::End(name) => pieces.push(Piece::End(name)),
            Token::Text {
                raw,
                has_references,
            } => {
                let mut text = String::new();
                match has_references {
                    true => decode_text_into(raw, &mut text),
                    false => push_lossy(&mut text, raw),
                }
                push_text(&mut pieces, &text);
            }
            Token::Start(tag) => {
                let mut attributes: Vec<(String, String)> = Vec::new();
                for attribute in tag.attributes.clone() {
                    let name = String::from_utf8_lossy(attribute.name).to_ascii_lowercase();
                    if attributes.iter().all(|(other, _)| *other != name) {
                        let mut value = String::new();
                        decode_attribute_into(attribute.value, &mut value);
                        attributes.push((name, value));
                    }
                }
                pieces.push(Piece::Start(tag.name, attributes, tag.is_self_closed));
            }
        }
    }
    pieces
}

fn ours(html: &str) -> Vec<Piece> {
    ours_as(html, Syntax::Html)
}

#[derive(Default)]
struct Sink(RefCell<Vec<Piece>>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Theirs, _: u64) -> TokenSinkResult<()> {
        let mut pieces = self.0.borrow_mut();
        match token {
            Theirs::CharacterTokens(text) => push_text(&mut pieces, &text),
            Theirs::TagToken(tag) if tag.kind == TagKind::EndTag => {
                pieces.push(Piece::End(Name::of(tag.name.as_bytes())));
            }
            Theirs::TagToken(tag) => {
                let attributes = tag.attrs.iter();
                let attributes = attributes
                    .map(|attribute| {
                        (
                            attribute.name.local.to_string(),
                            attribute.value.to_string(),
                        )
                    })
                    .collect();
                let name = Name::of(tag.name.as_bytes());
                pieces.push(Piece::Start(name, attributes, tag.self_closing));
                return match &*tag.name {
                    "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
                    "script" => TokenSinkResult::RawData(RawKind::ScriptData),
                    "style" | "iframe" | "xmp" | "noembed" | "noframes" => {
                        TokenSinkResult::RawData(RawKind::Rawtext)
                    }
                    "plaintext" => TokenSinkResult::Plaintext,
                    _ => TokenSinkResult::Continue,
                };
            }
            _ => (),
        }
        TokenSinkResult::Continue
    }
}

fn theirs(html: &str) -> Vec<Piece> {
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take()
}

const NASTY: &[&str] = &[
    "<",
    ">",
    "/",
    "</",
    "/>",
    "<!",
    "<!--",
    "-->",
    "--!>",
    "--",
    "-",
    "<!-->",
    "<!--->",
    "<?",
    "=",
    "\"",
    "'",
    " ",
    "\n",
    "\t",
    "a",
    "A",
    "<a",
    "<a ",
    "</a>",
    "href",
    "href=",
    " href=\"",
    " HREF='",
    "<p>",
    "<script>",
    "</script>",
    "</script",
    "<script",
    "<SCRIPT ",
    "</SCRIPT\t>",
    "<style>",
    "</style>",
    "<title>",
    "</title>",
    "<textarea>",
    "</textarea >",
    "<xmp>",
    "</xmp/>",
    "<iframe src=x>",
    "</iframe>",
    "<plaintext>",
    "<!doctype html>",
    "<![CDATA[",
    "]]>",
    "&",
    "&amp;",
    "&amp",
    "&copy",
    "&copy=",
    "&copyx",
    "&notit;",
    "&#65;",
    "&#x20ac",
    "&#128;",
    "&#0;",
    "&#xd800;",
    "&#99999999999;",
    "&#",
    "&#x",
    "&nosuch;",
    ";",
    "&ngE;",
    "é",
    "漢",
    "x=y",
    "x='",
    "<b/>",
    "<b / >",
    "<b x=/>",
    "<br/",
    "!",
    "[",
    "]",
    "1",
];

fn nasty() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(NASTY), 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn nasty_html_gives_the_tokens_that_html5ever_gives(html in nasty()) {
        prop_assert_eq!(ours(&html), theirs(&html));
    }

    #[test]
    fn any_text_gives_the_tokens_that_html5ever_gives(html in "[^\r\0\u{feff}]{0,60}") {
        prop_assert_eq!(ours(&html), theirs(&html));
    }

    #[test]
    fn bytes_of_any_kind_do_not_panic(html in prop::collection::vec(any::<u8>(), 0..200)) {
        for syntax in [Syntax::Html, Syntax::Xhtml] {
            for token in Tokens::new(&html, syntax) {
                if let Token::Start(tag) = token {
                    tag.attributes.for_each(drop);
                }
            }
        }
    }
}

/// The control: the property would see a tokenizer that does not know raw text.
#[test]
fn a_script_is_told_from_tags() {
    let html = "<script>'<a href=x>'</script>";
    assert_eq!(ours(html).len(), 3);
    assert_ne!(ours(html), ours(&html.replace("script", "scrip")));
}

#[test]
fn raw_text_is_none_within_svg() {
    let tags = |html: &str| {
        let is_link = |piece: &Piece| matches!(piece, Piece::Start(Name::A, ..));
        ours(html).into_iter().filter(is_link).count()
    };
    assert_eq!(tags("<svg><style/></svg><a href=x>"), 1);
    assert_eq!(tags("<svg><title>t</title><a href=x></svg><a href=y>"), 2);
    assert_eq!(
        tags("<svg><foreignObject><title><a></title></foreignObject><style><a></style></svg>"),
        1
    );
    assert_eq!(tags("<svg><![CDATA[<a>]]><a></svg><![CDATA[<a>]]>"), 1);
    assert_eq!(tags("<svg><p><style><a></style>"), 0, "a paragraph ends it");
    assert_eq!(
        tags(&("<svg>".repeat(1_000) + "<a>" + &"</svg>".repeat(1_000) + "<a>")),
        2
    );
}

#[test]
fn xhtml_closes_what_is_closed() {
    let html = "<script src='x'/><a href='y'/><![CDATA[<b>]]>";
    let pieces = ours_as(html, Syntax::Xhtml);
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[2], Piece::Text("<b>".to_owned()));
    assert_eq!(ours(html).len(), 2, "in HTML the script goes on");
}

/// Texts that make careless readers go back again and again.
#[test]
fn time_is_linear_in_the_length() {
    for piece in [
        "<",
        "<!--",
        "<a ",
        "<a b='",
        "</",
        "<script>",
        "<title>",
        "<!-- -",
        "&",
        "&#1",
        "<svg>",
        "<a =",
        "<![CDATA[",
    ] {
        let html = piece.repeat(1_000_000 / piece.len());
        let started = Instant::now();
        let count = ours(&html).len();
        let took = started.elapsed();
        assert!(
            took < Duration::from_secs(20),
            "{piece:?} took {took:?} for {count} pieces"
        );
    }
}
