//! A picture of two runs of the staircase: load, workers and latency over time.

use std::fmt::Write;

use super::staircase::Staircase;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 170.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const GAP: f64 = 46.0;
const TOP: f64 = 36.0;
/// Latencies are shown on a scale of powers of ten from a millisecond on.
const DECADES: f64 = 5.0;
const SCALED: &str = "#0b6e99";
const FIXED: &str = "#c2410c";

/// The picture as SVG.
pub fn draw(scaled: &Staircase, fixed: &Staircase) -> String {
    let height = TOP + 3.0 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\"><tspan fill=\"{SCALED}\">■ scales itself</tspan>  <tspan dx=\"16\" fill=\"{FIXED}\">■ four workers throughout</tspan></text>\n"
    );
    let due = scaled
        .due
        .iter()
        .fold(0.0_f64, |most, rate| most.max(*rate));
    let rates = |run: &Staircase| {
        run.seconds
            .iter()
            .map(|s| s.events as f64 / (1.1 * due))
            .collect::<Vec<_>>()
    };
    let panel = Panel::new(
        0,
        "events/s handled",
        vec![(0.0, "0".into()), (1.0 / 1.1, format!("{due:.0}"))],
    );
    panel.draw(&mut svg, &[(SCALED, rates(scaled)), (FIXED, rates(fixed))]);
    let most = f64::from(scaled.workers_max.max(fixed.workers_max).max(1));
    let workers = |run: &Staircase| {
        run.seconds
            .iter()
            .map(|s| f64::from(s.workers) / (1.1 * most))
            .collect::<Vec<_>>()
    };
    let panel = Panel::new(
        1,
        "workers",
        vec![(0.0, "0".into()), (1.0 / 1.1, format!("{most:.0}"))],
    );
    panel.draw(
        &mut svg,
        &[(SCALED, workers(scaled)), (FIXED, workers(fixed))],
    );
    let late = |run: &Staircase| {
        run.seconds
            .iter()
            .map(|s| decades(s.late_ms))
            .collect::<Vec<_>>()
    };
    let marks: Vec<(f64, String)> = [1.0, 10.0, 100.0, 1_000.0, 10_000.0]
        .map(|ms| (decades(ms), format!("{ms:.0} ms")))
        .to_vec();
    let panel = Panel::new(2, "average latency of each second", marks);
    panel.draw(&mut svg, &[(SCALED, late(scaled)), (FIXED, late(fixed))]);
    seconds(&mut svg, scaled.seconds.len(), height);
    svg.push_str("</svg>\n");
    svg
}

/// A latency as a share of the height.
fn decades(ms: f64) -> f64 {
    (ms.max(1.0).log10() / DECADES).min(1.0)
}

/// One of the diagrams, one below the other.
struct Panel {
    top: f64,
    title: &'static str,
    marks: Vec<(f64, String)>,
}

impl Panel {
    fn new(number: u32, title: &'static str, marks: Vec<(f64, String)>) -> Self {
        let top = TOP + f64::from(number) * (PANEL + GAP) + 18.0;
        Self { top, title, marks }
    }

    /// Draws lines of shares of the height.
    fn draw(&self, svg: &mut String, lines: &[(&str, Vec<f64>)]) {
        let (top, bottom) = (self.top, self.top + PANEL);
        let (left, right) = (LEFT, WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{:.1}\">{}</text>",
            top - 6.0,
            self.title
        );
        for (share, label) in &self.marks {
            let y = bottom - share * PANEL;
            let _ = writeln!(
                svg,
                "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{label}</text>",
                left - 6.0,
                y + 4.0
            );
        }
        for (colour, shares) in lines {
            let step = (right - left) / shares.len().max(1) as f64;
            let mut points = String::new();
            for (second, share) in shares.iter().enumerate() {
                let (x, y) = (
                    left + (second as f64 + 0.5) * step,
                    bottom - share.clamp(0.0, 1.0) * PANEL,
                );
                let _ = write!(points, "{x:.1},{y:.1} ");
            }
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" points=\"{}\"/>",
                points.trim_end()
            );
        }
    }
}

/// The seconds below the last diagram.
fn seconds(svg: &mut String, count: usize, height: f64) {
    let step = (WIDTH - LEFT - RIGHT) / count.max(1) as f64;
    for second in (0..=count).step_by(50) {
        let x = LEFT + second as f64 * step;
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{second} s</text>",
            height - 8.0
        );
    }
}
