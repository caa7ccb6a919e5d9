use proptest::prelude::*;

use super::*;

fn check(bytes: &[u8], header: Option<&str>, expected: (&str, &str, Source)) {
    let decoded = decode(bytes, header, None);
    assert_eq!((&*decoded.text, decoded.charset, decoded.source), expected);
    assert_eq!(decoded.broken, 0);
}

#[test]
fn the_sources_come_in_order() {
    let meta = b"<?xml version='1.0' encoding='koi8-r'?><meta charset=windows-1251>\xcf";
    check(
        &[b"\xef\xbb\xbf", &meta[..66]].concat(),
        Some("iso-8859-1"),
        (
            "<?xml version='1.0' encoding='koi8-r'?><meta charset=windows-1251>",
            "UTF-8",
            Source::ByteOrderMark,
        ),
    );
    let text = |last: &str| {
        format!("<?xml version='1.0' encoding='koi8-r'?><meta charset=windows-1251>{last}")
    };
    check(
        meta,
        Some(" ISO-8859-1"),
        (&text("Ï"), "windows-1252", Source::Header),
    );
    check(
        meta,
        Some("no-such-thing"),
        (&text("П"), "windows-1251", Source::Meta),
    );
    check(
        b"<?xml version='1.0' encoding='koi8-r'?>\xcf",
        None,
        (
            "<?xml version='1.0' encoding='koi8-r'?>о",
            "KOI8-R",
            Source::XmlDeclaration,
        ),
    );
    check("é".as_bytes(), None, ("é", "UTF-8", Source::Bytes));
    check(
        b"\xff\xfea\0b\0",
        None,
        ("ab", "UTF-16LE", Source::ByteOrderMark),
    );
}

fn meta_of(html: &str) -> Option<&'static str> {
    declared::in_meta(html.as_bytes()).map(Encoding::name)
}

#[test]
fn meta_is_read_as_the_standard_says() {
    assert_eq!(meta_of("<META CHARSET='UTF8'>"), Some("UTF-8"));
    assert_eq!(meta_of("<meta/charset=utf-8 >"), Some("UTF-8"));
    assert_eq!(
        meta_of("<meta content='text/html; charset = \"sjis\"' http-equiv=Content-Type>"),
        Some("Shift_JIS")
    );
    assert_eq!(
        meta_of("<meta http-equiv=content-type content='x charset charset=big5;y'>"),
        Some("Big5")
    );
    assert_eq!(meta_of("<meta content='text/html; charset=sjis'>"), None);
    assert_eq!(
        meta_of("<!-- <meta charset=big5> --><meta charset=utf-16>"),
        Some("UTF-8")
    );
    assert_eq!(meta_of("<!--><meta charset=big5>"), Some("Big5"));
    assert_eq!(
        meta_of("<p title='<meta charset=big5>'><meta charset=gbk>"),
        Some("GBK")
    );
    assert_eq!(meta_of("<metal charset=big5>"), None);
    assert_eq!(
        meta_of("<meta charset=nonsense><meta charset=big5>"),
        Some("Big5")
    );
    assert_eq!(
        meta_of(&format!("{}<meta charset=big5>", " ".repeat(1_020))),
        None
    );
    assert_eq!(meta_of("<!-- never closed <meta charset=big5>"), None);
}

#[test]
fn what_is_not_declared_is_guessed() {
    let russian =
        "Пчёлы летают от цветка к цветку и собирают нектар, который потом приносят домой.";
    let (bytes, ..) = encoding_rs::WINDOWS_1251.encode(russian);
    let decoded = decode(&bytes, None, Some("ru"));
    assert_eq!((&*decoded.text, decoded.source), (russian, Source::Bytes));
    decode(&bytes, None, Some("Not.A domain"));
}

#[test]
fn broken_sequences_are_replaced_and_counted() {
    let decoded = decode(b"a\xffb\xc3(c", Some("utf-8"), None);
    assert_eq!(
        (&*decoded.text, decoded.broken),
        ("a\u{fffd}b\u{fffd}(c", 2)
    );
    let decoded = decode(b"a\x81\x20b\xff", Some("shift_jis"), None);
    assert_eq!((&*decoded.text, decoded.broken), ("a\u{fffd} b\u{fffd}", 2));
}

proptest! {
    #[test]
    fn any_bytes_can_be_decoded(bytes in prop::collection::vec(any::<u8>(), 0..300), label in prop::sample::select(vec![
        "utf-8", "shift_jis", "gb18030", "euc-kr", "utf-16le", "windows-1252", "iso-2022-jp", "replacement", "none",
    ])) {
        let decoded = decode(&bytes, Some(label), None);
        let (text, _) = Encoding::for_label(decoded.charset.as_bytes())
            .expect("its own name")
            .decode_with_bom_removal(&bytes);
        prop_assert_eq!(&*decoded.text, &*text);
        let replaced = decoded.text.matches(char::REPLACEMENT_CHARACTER).count();
        prop_assert!(decoded.broken <= replaced);
    }
}
