//! Pages in charsets other than the one they declare, or in none that they declare.

use super::Trap;

/// What each page says, so that a test can look for it.
pub const LATIN: &str = "Käse für Übermütige";
/// The same for Japanese.
pub const JAPANESE: &str = "日本語のページ";

const HTML: &str = "text/html";

/// All of them.
pub(super) const CHARSETS: Trap = Trap {
    name: "charset",
    links: &[
        "/traps/charset/latin-1",
        "/traps/charset/wrong",
        "/traps/charset/utf-16",
        "/traps/charset/shift-jis",
        "/traps/charset/unknown",
    ],
    answer: |_, _, request, reply| {
        let utf8 = format!("<title>{LATIN}</title><p>{LATIN}</p>");
        let (declared, body) = match request.below("/traps/charset") {
            "latin-1" => ("text/html; charset=iso-8859-1", latin1(&utf8)),
            // It says one thing and is another.
            "wrong" => ("text/html; charset=utf-8", latin1(&utf8)),
            "utf-16" => (HTML, utf16(&utf8)),
            "shift-jis" => (HTML, shift_jis()),
            _ => ("text/html; charset=x-nobody-knows", utf8.into_bytes()),
        };
        reply.whole(200, &[("Content-Type", declared)], &body)
    },
};

fn latin1(text: &str) -> Vec<u8> {
    let byte = |letter| u8::try_from(u32::from(letter)).unwrap_or(b'?');
    text.chars().map(byte).collect()
}

/// With the mark that tells its order of bytes.
fn utf16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

/// [`JAPANESE`], declared within the page only.
fn shift_jis() -> Vec<u8> {
    let mut page = b"<meta charset=\"Shift_JIS\"><title>".to_vec();
    let text = b"\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x83\x79\x81\x5b\x83\x57";
    page.extend_from_slice(text);
    page.extend_from_slice(b"</title><p>");
    page.extend_from_slice(text);
    page
}
