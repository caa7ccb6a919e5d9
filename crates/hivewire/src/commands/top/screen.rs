//! How `hivewire top` looks.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState, Wrap};

use super::model::{LOOKS_KEPT, Model, NUMBERS, TITLES};

/// Lines below the table for the stage that is looked at: with decisions, and without.
const DETAIL_LINES: u16 = 12;
const DETAIL_LINES_FEW: u16 = 6;
const RATE_LINES: u16 = 3;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let detail = match model.selected().map(|at| &model.rows()[at]) {
        Some(row) if row.decisions.is_empty() && row.stands.is_none() => DETAIL_LINES_FEW,
        Some(_) => DETAIL_LINES,
        None => 0,
    };
    let [head, stages, details, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(detail),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(summary(model), head);
    draw_stages(frame, model, stages);
    if let Some(at) = model.selected() {
        draw_details(frame, model, at, details);
    }
    frame.render_widget(help(model), foot);
}

fn summary(model: &Model) -> Line<'static> {
    if let Some(trouble) = &model.trouble {
        return Line::from(format!("no answer, tried again: {trouble}")).red();
    }
    let rows = model.rows();
    let rate: f64 = rows.iter().map(|row| row.done_per_second).sum();
    let waiting: u64 = rows.iter().map(|row| row.waiting).sum();
    let dead: u64 = rows.iter().map(|row| row.dead).sum();
    Line::from(format!(
        "{} stages, {rate:.0} messages/s, {waiting} wait, {dead} dead",
        rows.len()
    ))
    .bold()
}

fn help(model: &Model) -> Line<'static> {
    Line::from(format!(
        "↑↓ look at a stage   s sort (by {})   q quit",
        model.sort().name()
    ))
    .dim()
}

fn draw_stages(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    if model.rows().is_empty() {
        let empty = "No stage runs here. Run a flow with `hivewire run FILE`.";
        frame.render_widget(Paragraph::new(empty), area);
        return;
    }
    let cells: Vec<Vec<String>> = model.rows().iter().map(|row| row.cells()).collect();
    let width = |column: usize| {
        let widest = cells.iter().map(|row| row[column].chars().count()).max();
        let title = TITLES[column].chars().count();
        widest.unwrap_or(0).max(title) as u16
    };
    let widths: Vec<u16> = (0..TITLES.len()).map(width).collect();
    let spaces = TITLES.len() as u16 - 1;
    let is_narrow = widths.iter().sum::<u16>() + 2 * spaces > area.width;
    let widths = widths.into_iter().map(Constraint::Length);
    let rows = model.rows().iter().zip(&cells).map(|(row, cells)| {
        let line = aligned(cells.iter().map(String::as_str));
        match (row.state.as_str(), row.dead) {
            ("failed" | "stands", _) => line.red(),
            (_, 0) => line,
            _ => line.yellow(),
        }
    });
    let table = Table::new(rows, widths)
        .header(aligned(TITLES).style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(if is_narrow { 1 } else { 2 })
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(model.selected());
    frame.render_stateful_widget(table, area, &mut state);
}

/// A line of the table: numbers stand at the right of their columns.
fn aligned<'a>(cells: impl IntoIterator<Item = &'a str>) -> Row<'a> {
    let cells = cells.into_iter().enumerate().map(|(column, text)| {
        let line = Line::from(text);
        Cell::from(match NUMBERS.contains(&column) {
            true => line.right_aligned(),
            false => line,
        })
    });
    Row::new(cells)
}

fn draw_details(frame: &mut Frame<'_>, model: &Model, at: usize, area: Rect) {
    let row = &model.rows()[at];
    let block = Block::bordered().title(format!(" {} ", row.stage));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [rates, decisions] =
        Layout::vertical([Constraint::Length(RATE_LINES), Constraint::Min(1)]).areas(inner);
    let seen = model.rates(&row.stage);
    let most = seen.iter().max().copied().unwrap_or_default();
    let [label, line] =
        Layout::horizontal([Constraint::Length(24), Constraint::Max(LOOKS_KEPT as u16)])
            .areas(rates);
    frame.render_widget(
        Paragraph::new(format!("messages/s, last minute\nat most {most}")).dim(),
        label,
    );
    frame.render_widget(Sparkline::default().data(seen), line);
    let stands = row.stands.iter();
    let mut text: Vec<Line<'_>> = stands
        .map(|why| Line::from(format!("It stands still: {why}.")).red())
        .collect();
    match row.decisions.is_empty() {
        true if row.is_scaled() => {
            text.push(Line::from("No decision about its number of workers yet.").dim());
        }
        true => text.push(Line::from("It has as many workers as it was told.").dim()),
        false => text.extend(
            row.decisions
                .iter()
                .map(|said| Line::from(format!("• {said}"))),
        ),
    }
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), decisions);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model::tests::answer;
    use super::*;

    fn shown(model: &Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn stages_rates_and_decisions_are_on_the_screen() {
        let mut model = Model::default();
        assert!(shown(&model).contains("No stage runs here"));
        model.update(&answer());
        model.select(0);
        model.select(1);
        let screen = shown(&model);
        for part in [
            "2 stages",
            "shop/bills",
            "4 of 1-8",
            "80.0",
            "from 2 to 4 workers",
            "q quit",
        ] {
            assert!(screen.contains(part), "{part} is missing:\n{screen}");
        }
        let mut standing = answer();
        standing["flows"][0]["stages"][1]["stands"] = "there is no room left".into();
        model.update(&standing);
        let screen = shown(&model);
        assert!(screen.contains("orders  stands"), "{screen}");
        assert!(screen.contains("no room left."), "{screen}");
        model.trouble = Some("connection refused".to_owned());
        assert!(shown(&model).contains("connection refused"));
    }

    #[test]
    fn a_small_terminal_breaks_nothing() {
        let mut model = Model::default();
        model.update(&answer());
        model.select(0);
        for (width, height) in [(1, 1), (10, 3), (20, 8), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &model)).unwrap();
        }
    }
}
