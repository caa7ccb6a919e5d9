//! Pictures of services: figures of several programs by what is on the horizontal axis.

use std::fmt::Write;

use crate::peers::services::Program;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 200.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const GAP: f64 = 52.0;
const TOP: f64 = 40.0;

/// How figures become heights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// From zero to a tenth more than the highest.
    Even,
    /// Powers of ten between two of them.
    Decades(i32, i32),
}

/// A line: one figure for each place on the horizontal axis.
#[derive(Debug, Clone)]
pub struct Line {
    /// Whose it is.
    pub program: Program,
    /// In the order of the places.
    pub figures: Vec<f64>,
}

/// One diagram.
#[derive(Debug, Clone)]
pub struct Diagram {
    /// What the figures are.
    pub title: String,
    /// Their unit on the marks.
    pub unit: &'static str,
    /// How high they are.
    pub scale: Scale,
    /// One for each program.
    pub lines: Vec<Line>,
}

/// Diagrams below one another, over the same places.
pub fn draw(places: &[String], diagrams: &[Diagram]) -> String {
    let height = TOP + diagrams.len() as f64 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    legend(&mut svg, diagrams);
    for (number, diagram) in diagrams.iter().enumerate() {
        let top = TOP + number as f64 * (PANEL + GAP) + 18.0;
        draw_diagram(&mut svg, diagram, places, top);
    }
    svg.push_str("</svg>\n");
    svg
}

fn colour(program: Program) -> &'static str {
    match program {
        Program::Hivewire => "#0b6e99",
        Program::HivewireOneLoop => "#7fb8d1",
        Program::Axum => "#c2410c",
        Program::AxumInline => "#e79a6f",
        Program::Actix => "#7c3aed",
        Program::Node => "#4d7c0f",
        Program::NodeCluster => "#9db36a",
    }
}

fn legend(svg: &mut String, diagrams: &[Diagram]) {
    let mut programs: Vec<Program> = diagrams
        .iter()
        .flat_map(|diagram| diagram.lines.iter().map(|line| line.program))
        .collect();
    programs.sort();
    programs.dedup();
    let names: Vec<String> = programs
        .into_iter()
        .map(|program| {
            let (fill, name) = (colour(program), program.name());
            format!("<tspan fill=\"{fill}\" dx=\"14\">■ {name}</tspan>")
        })
        .collect();
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"18\">{}</text>",
        LEFT - 14.0,
        names.concat()
    );
}

fn draw_diagram(svg: &mut String, diagram: &Diagram, places: &[String], top: f64) {
    let bottom = top + PANEL;
    let most = diagram
        .lines
        .iter()
        .flat_map(|line| line.figures.iter())
        .fold(0.0_f64, |most, figure| most.max(*figure));
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
        top - 7.0,
        diagram.title
    );
    for (figure, label) in marks(diagram, most) {
        let y = bottom - share(diagram.scale, figure, most) * PANEL;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        );
    }
    let step = (WIDTH - LEFT - RIGHT) / places.len().max(1) as f64;
    let x = |place: usize| LEFT + (place as f64 + 0.5) * step;
    for (place, label) in places.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>",
            x(place),
            bottom + 16.0
        );
    }
    for line in &diagram.lines {
        let figures = line.figures.iter().enumerate();
        let points: Vec<(f64, f64)> = figures
            .map(|(place, figure)| {
                let height = share(diagram.scale, *figure, most) * PANEL;
                (x(place), bottom - height)
            })
            .collect();
        draw_line(svg, &points, colour(line.program));
    }
}

fn draw_line(svg: &mut String, points: &[(f64, f64)], colour: &str) {
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "{x:.1},{y:.1} ");
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        );
    }
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" points=\"{}\"/>",
        path.trim_end()
    );
}

/// A figure as a share of the height.
fn share(scale: Scale, figure: f64, most: f64) -> f64 {
    let share = match scale {
        Scale::Even => figure / (1.1 * most.max(f64::MIN_POSITIVE)),
        Scale::Decades(from, to) => {
            (figure.max(f64::MIN_POSITIVE).log10() - f64::from(from)) / f64::from(to - from)
        }
    };
    share.clamp(0.0, 1.0)
}

fn marks(diagram: &Diagram, most: f64) -> Vec<(f64, String)> {
    let label = |figure: f64| (figure, format!("{figure} {}", diagram.unit));
    match diagram.scale {
        Scale::Decades(from, to) => (from..=to).map(|power| label(10_f64.powi(power))).collect(),
        Scale::Even => {
            let step = round_step(most / 4.0);
            let count = (most / step).floor() as u32;
            (0..=count)
                .map(|number| label(f64::from(number) * step))
                .collect()
        }
    }
}

/// The next lower of 1, 2 and 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(1e-9).log10().floor());
    let digit = step / power;
    power
        * match digit {
            digit if digit >= 5.0 => 5.0,
            digit if digit >= 2.0 => 2.0,
            _ => 1.0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagram(scale: Scale) -> Diagram {
        Diagram {
            title: "latency".to_owned(),
            unit: "ms",
            scale,
            lines: vec![
                Line {
                    program: Program::Hivewire,
                    figures: vec![1.0, 10.0],
                },
                Line {
                    program: Program::Node,
                    figures: vec![100.0, 50.0],
                },
            ],
        }
    }

    #[test]
    fn every_figure_has_its_point_and_every_program_its_colour() {
        let places = ["5 %".to_owned(), "10 %".to_owned()];
        let svg = draw(
            &places,
            &[diagram(Scale::Decades(0, 4)), diagram(Scale::Even)],
        );
        assert_eq!(svg.matches("<circle").count(), 8);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("■").count(), 2);
        assert!(svg.contains("10000 ms") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn heights_follow_the_scale() {
        assert_eq!(share(Scale::Decades(0, 4), 100.0, 0.0), 0.5);
        assert_eq!(share(Scale::Decades(0, 4), 0.1, 0.0), 0.0);
        assert_eq!(share(Scale::Even, 120.0, 100.0), 1.0);
        assert_eq!(round_step(430.0), 200.0);
        assert_eq!(round_step(0.6), 0.5);
    }
}
