//! A router: messages with the header `to` go to the worker of that number, `all` to every one, and
//! all others to the first that has the least to do.

use hivewire_sdk::{Candidate, Message, Result, Router};

#[derive(Default)]
struct FirstRouter;

impl Router for FirstRouter {
    fn select(&mut self, message: &Message, workers: &[Candidate]) -> Result<Vec<u32>> {
        let places = (0u32..).zip(workers);
        match message.header("to") {
            Some("all") => Ok(places.map(|(place, _)| place).collect()),
            Some(number) => {
                let number: u32 = number.parse()?;
                let found = places.into_iter().find(|(_, known)| known.worker == number);
                let (place, _) = found.ok_or_else(|| format!("there is no worker {number}"))?;
                Ok(vec![place])
            }
            None => {
                let least = places.min_by_key(|(_, worker)| worker.waiting);
                let (place, _) = least.ok_or("there are no workers")?;
                Ok(vec![place])
            }
        }
    }
}

hivewire_sdk::router!(FirstRouter);
