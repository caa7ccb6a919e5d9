//! `hivewire top`

mod model;
mod screen;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::Value;

use self::model::{Model, Row};
use super::Global;
use super::output::{json_line, table};
use crate::client::Client;
use crate::exit::Exit;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct Top {
    /// Only stages whose address begins like this, such as `shop/`
    #[arg(value_name = "FLOW[/STAGE]")]
    what: Option<String>,
    /// Show it once and end: what happens anyway when the output is no terminal
    #[arg(long)]
    once: bool,
}

impl Top {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        if global.json {
            json_line(&self.look(&client)?)?;
            return Ok(Exit::Done);
        }
        let mut model = Model::default();
        model.update(&self.look(&client)?);
        if self.once || !std::io::stdout().is_terminal() {
            std::io::stdout().write_all(plain(&model).as_bytes())?;
            return Ok(Exit::Done);
        }
        let mut terminal = ratatui::try_init()?;
        let ended = self.watch(&client, &mut model, &mut terminal);
        ratatui::restore();
        ended.map(|()| Exit::Done)
    }

    fn look(&self, client: &Client) -> anyhow::Result<Value> {
        let path = match &self.what {
            Some(prefix) => format!("/api/v1/flows?q={}", crate::client::encode(prefix)),
            None => "/api/v1/flows".to_owned(),
        };
        Ok(client.get_all(&path, "flows")?)
    }

    /// Shows the stages until somebody has seen enough. A node that does not answer is shown as such, and asked again.
    fn watch(
        &self,
        client: &Client,
        model: &mut Model,
        terminal: &mut DefaultTerminal,
    ) -> anyhow::Result<()> {
        let mut next = Instant::now() + LOOK_EVERY;
        loop {
            terminal.draw(|frame| screen::draw(frame, model))?;
            let patience = next.saturating_duration_since(Instant::now());
            if event::poll(patience)? {
                if is_end(model, &event::read()?) {
                    return Ok(());
                }
                continue;
            }
            next = Instant::now() + LOOK_EVERY;
            match self.look(client) {
                Ok(answer) => model.update(&answer),
                Err(error) => model.trouble = Some(error.to_string()),
            }
        }
    }
}

/// Does what a key says. Whether that is to end.
fn is_end(model: &mut Model, event: &Event) -> bool {
    let Event::Key(key) = event else {
        return false;
    };
    if key.kind == KeyEventKind::Release {
        return false;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Up | KeyCode::Char('k') => model.select(-1),
        KeyCode::Down | KeyCode::Char('j') => model.select(1),
        KeyCode::PageUp => model.select(-10),
        KeyCode::PageDown => model.select(10),
        KeyCode::Char('s') => model.sort_next(),
        _ => {}
    }
    false
}

/// The stages as a table, for those who read them with other programs.
fn plain(model: &Model) -> String {
    let rows: Vec<Vec<String>> = model.rows().iter().map(Row::cells).collect();
    table(&model::TITLES, &model::NUMBERS, &rows)
}
