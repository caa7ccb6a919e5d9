//! Folded stacks as a picture: each function is as wide as the share of samples it was seen in, and stands
//! on the one that called it. It is a plain SVG without scripts; a browser shows a function's whole name and
//! its share when it is pointed at.

use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 1_200.0;
const ROW: f64 = 17.0;
const TITLE: f64 = 40.0;
/// What is narrower cannot be seen.
const NARROWEST: f64 = 0.3;
const CHARACTER: f64 = 6.6;
/// Deeper calls are left out.
const DEPTH_MAX: usize = 400;

#[derive(Default)]
struct Frame<'a> {
    samples: u64,
    calls: BTreeMap<&'a str, Frame<'a>>,
}

/// The picture of these stacks.
pub(crate) fn svg(title: &str, folded: &str) -> String {
    let mut all = Frame::default();
    for line in folded.lines() {
        let Some((stack, count)) = line.rsplit_once(' ') else {
            continue;
        };
        let count: u64 = count.parse().unwrap_or_default();
        let mut frame = &mut all;
        frame.samples += count;
        for name in stack.split(';').take(DEPTH_MAX) {
            frame = frame.calls.entry(name).or_default();
            frame.samples += count;
        }
    }
    let rows = depth(&all);
    let height = TITLE + ROW * (rows as f64 + 1.0);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{}\" y=\"24\" font-size=\"16\" text-anchor=\"middle\">{}</text>\n",
        WIDTH / 2.0,
        escaped(title)
    );
    let drawing = Drawing {
        all: all.samples.max(1),
        bottom: height - ROW,
    };
    drawing.frame(&mut picture, "all", &all, 0.0, 0);
    picture.push_str("</svg>\n");
    picture
}

fn depth(frame: &Frame<'_>) -> usize {
    1 + frame.calls.values().map(depth).max().unwrap_or_default()
}

struct Drawing {
    all: u64,
    bottom: f64,
}

impl Drawing {
    fn frame(&self, picture: &mut String, name: &str, frame: &Frame<'_>, left: f64, row: usize) {
        let share = frame.samples as f64 / self.all as f64;
        let width = WIDTH * share;
        if width < NARROWEST {
            return;
        }
        let top = self.bottom - ROW * row as f64;
        let characters = (width / CHARACTER) as usize;
        let shown: String = match name.chars().count() <= characters {
            true => name.to_owned(),
            false if characters > 3 => name.chars().take(characters - 1).chain(['…']).collect(),
            false => String::new(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            picture,
            "<g><title>{} ({} samples, {:.2}%)</title>\
             <rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"16\" rx=\"1\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            escaped(name),
            frame.samples,
            100.0 * share,
            colour(name),
            left + 3.0,
            top + 12.0,
            escaped(&shown)
        );
        let mut left = left;
        for (name, call) in &frame.calls {
            self.frame(picture, name, call, left, row + 1);
            left += WIDTH * call.samples as f64 / self.all as f64;
        }
    }
}

/// The same function always has the same colour.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(17_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("hsl({},80%,{}%)", 5 + hash % 50, 62 + hash / 64 % 12)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_as_wide_as_their_share_and_names_are_escaped() {
        let picture = svg("a & b", "t;main;<fast> 1\nt;main;slow 3\nnonsense\n");
        assert!(picture.contains("a &amp; b") && picture.contains("&lt;fast&gt;"));
        assert!(!picture.contains("<fast>"));
        assert!(picture.contains("slow (3 samples, 75.00%)"));
        assert!(picture.contains("width=\"900.0\"") && picture.contains("width=\"300.0\""));
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(svg("nothing", "").contains("</svg>"));
    }
}
