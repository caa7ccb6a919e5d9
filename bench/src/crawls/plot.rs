//! A picture of a crawl: the workers of each stage over time.

use std::fmt::Write;

use super::workers::Seen;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 30.0;
const ROW: f64 = 34.0;
const COLOUR: &str = "#0b6e99";
const MOST_COLOUR: &str = "#c2410c";

/// The picture as SVG: a band for each stage, as high as it has workers, in the order of pages through the crawl.
pub fn draw(seen: &Seen, order: &[&str]) -> String {
    let stages: Vec<(&str, &Vec<u32>)> = order
        .iter()
        .filter_map(|stage| Some((*stage, seen.workers.get(*stage)?)))
        .collect();
    let height = TOP + ROW * stages.len() as f64 + 40.0;
    let (most_stage, most) = seen.most();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\">workers of each stage over the time of a crawl</text>\n"
    );
    for (row, (stage, counts)) in stages.iter().enumerate() {
        let bottom = TOP + ROW * (row as f64 + 1.0);
        let colour = if *stage == most_stage {
            MOST_COLOUR
        } else {
            COLOUR
        };
        let own_most = counts.iter().max().copied().unwrap_or_default();
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{stage}</text>\
             <line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555\">{own_most}</text>",
            LEFT - 8.0,
            bottom - 4.0,
            WIDTH - RIGHT,
            WIDTH - RIGHT + 8.0,
            bottom - 4.0
        );
        let _ = writeln!(
            svg,
            "<polygon fill=\"{colour}\" fill-opacity=\"0.6\" points=\"{}\"/>",
            band(counts, bottom, most)
        );
    }
    seconds(&mut svg, seen, height);
    svg.push_str("</svg>\n");
    svg
}

/// Steps from look to look.
fn band(counts: &[u32], bottom: f64, most: u32) -> String {
    let step = (WIDTH - LEFT - RIGHT) / counts.len().max(1) as f64;
    let scale = (ROW - 6.0) / f64::from(most.max(1));
    let mut points = format!("{LEFT:.1},{bottom:.1} ");
    for (look, count) in counts.iter().enumerate() {
        let (x, y) = (
            LEFT + look as f64 * step,
            bottom - f64::from(*count) * scale,
        );
        let _ = write!(points, "{x:.1},{y:.1} {:.1},{y:.1} ", x + step);
    }
    let _ = write!(points, "{:.1},{bottom:.1}", WIDTH - RIGHT);
    points
}

fn seconds(svg: &mut String, seen: &Seen, height: f64) {
    let all = seen.every * seen.fetched.len() as f64;
    let every = (all / 10.0).ceil().max(1.0);
    let mut second = 0.0;
    while second <= all {
        let x = LEFT + (WIDTH - LEFT - RIGHT) * second / all.max(1.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{second:.0} s</text>",
            height - 12.0
        );
        second += every;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_stage_has_its_band_and_the_busiest_stands_out() {
        let seen = Seen {
            every: 0.5,
            workers: BTreeMap::from([
                ("download".to_owned(), vec![2, 10]),
                ("links".to_owned(), vec![1, 1]),
            ]),
            fetched: vec![0, 9],
        };
        let svg = draw(&seen, &["download", "links", "nobody"]);
        assert_eq!(svg.matches("<polygon").count(), 2);
        assert_eq!(svg.matches(MOST_COLOUR).count(), 1);
        assert!(svg.ends_with("</svg>\n"));
    }
}
