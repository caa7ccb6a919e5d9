use proptest::prelude::*;

use super::*;

fn rules() -> Rules {
    Rules {
        text_bytes_least: 0,
        guesses_language: false,
        ..Rules::default()
    }
}

fn check(html: &str, expected: &str) {
    assert_eq!(read(html.as_bytes(), &rules()).text, expected, "{html}");
}

#[test]
fn lines_are_those_of_the_page() {
    check(
        "<h1>A</h1><p>B <b>c</b>d\n\n e</p><ul><li>F<li>G</ul>",
        "A\nB cd e\nF\nG",
    );
    check(
        "<table><tr><td>1<td>2<tr><th>3</th> <th>4</th></table>",
        "1\t2\n3\t4",
    );
    check("a<br>b<br/>c<hr>d", "a\nb\nc\nd");
    check("<p>1&nbsp;&lt;&#160; 2</p>", "1 < 2");
    check("a<span>b</span><i> c</i>", "ab c");
    check("  \n ", "");
}

#[test]
fn what_is_not_for_reading_is_left_out() {
    check(
        "a<script>if (x < y) '</p>'</script><style>p{}</style><template><p>t</template>b",
        "ab",
    );
    check(
        "<svg><title>t</title><text>x</text></svg>a<textarea>x</textarea><select><option>o</select>b",
        "a b",
    );
    check("<!-- c -->a<iframe>x</iframe>", "a");
}

#[test]
fn what_surrounds_the_content_is_left_out_if_enough_is_left() {
    check(
        "<header>h</header><nav>n<nav>m</nav>o</nav><main><header>kept</header>c</main><footer>f</footer>",
        "kept\nc",
    );
    check(
        "<div role=navigation>n<div>x</div></div>c<div hidden>h</div><input hidden>d",
        "c\nd",
    );
    check("<p hidden>h<p>c", "c");
    check("<i aria-hidden=true>x</i>c", "c");
    check("<body hidden>c", "c");
}

#[test]
fn everything_is_taken_if_too_little_is_left() {
    let html = b"<nav>menu of the page</nav><p>c</p>";
    let few = Rules {
        text_bytes_least: 10,
        ..rules()
    };
    let readable = read(html, &few);
    assert_eq!(readable.text, "menu of the page\nc");
    assert!(readable.has_surroundings);
    assert!(!read(html, &rules()).has_surroundings);
    assert_eq!(
        read(b"<nav>never closed <p>c", &few).text,
        "never closed\nc"
    );
}

#[test]
fn titles_come_from_the_best_place() {
    let title = |html: &str| read(html.as_bytes(), &rules()).title;
    let og = "<meta property='og:title' content='Shared &amp; so'>";
    let all =
        format!("<title> A \n title &lt;b&gt; </title>{og}<h1>H</h1><svg><title>no</title></svg>");
    assert_eq!(title(&all).as_deref(), Some("A title <b>"));
    assert_eq!(
        title(&format!("<title> </title>{og}<h1>H</h1>")).as_deref(),
        Some("Shared & so")
    );
    assert_eq!(
        title("<h1>The <i>first</i></h1><h1>x</h1>").as_deref(),
        Some("The first")
    );
    assert_eq!(title("<p>none"), None);
}

#[test]
fn descriptions_are_found() {
    let description = |html: &str| read(html.as_bytes(), &rules()).description;
    assert_eq!(
        description("<meta content=' a  b ' name=Description>").as_deref(),
        Some("a b")
    );
    assert_eq!(
        description("<meta property=og:description content=x>").as_deref(),
        Some("x")
    );
}

#[test]
fn languages_are_read_or_guessed() {
    let english = "The bees fly from one flower to the next because they are looking for something sweet to bring home. What \
        they find is shared with all the others, who would otherwise have nothing to eat through the winter.";
    let german = "Die Bienen fliegen von einer Blume zur nächsten, weil sie etwas Süßes suchen, das sie nach Hause bringen können.";
    let language = |html: &str| read(html.as_bytes(), &Rules::default()).language;
    assert_eq!(
        language(&format!("<html lang='DE-at'><p>{english}")).as_deref(),
        Some("de")
    );
    assert_eq!(language(english).as_deref(), Some("en"));
    assert_eq!(language(german).as_deref(), Some("de"));
    assert_eq!(language("<html lang='???'>x"), None);
    let without = read(english.as_bytes(), &rules());
    assert_eq!(without.language, None);
}

#[test]
fn text_is_bounded_between_characters() {
    let few = Rules {
        text_bytes_max: 4,
        title_bytes_max: 3,
        ..rules()
    };
    let readable = read("<title>abcdef</title><p>ééé".as_bytes(), &few);
    assert_eq!((readable.text.as_str(), readable.is_cut), ("éé", true));
    assert_eq!(readable.title.as_deref(), Some("abc"));
    assert!(!read("éé".as_bytes(), &few).is_cut);
}

#[test]
fn plain_text_keeps_its_lines() {
    let readable = read_plain(b"a  b\r\n\r\n\tc", &rules());
    assert_eq!(readable.text, "a b\nc");
}

proptest! {
    /// Without tags, folding is what splitting at white space gives.
    #[test]
    fn folding_keeps_all_words(text in "[ \t\n\u{a0}abé漢]{0,60}") {
        let words: Vec<_> = text.split([' ', '\t', '\n', '\u{a0}']).filter(|word| !word.is_empty()).collect();
        let readable = read(text.as_bytes(), &rules());
        prop_assert_eq!(readable.text, words.join(" "));
    }

    #[test]
    fn any_bytes_give_a_bounded_text(html in prop::collection::vec(any::<u8>(), 0..300), bytes_max in 0_usize..50) {
        let readable = read(&html, &Rules { text_bytes_max: bytes_max, ..Rules::default() });
        prop_assert!(readable.text.len() <= bytes_max);
    }
}
