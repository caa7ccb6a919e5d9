//! What a program is told on its command line.

use std::net::SocketAddr;

/// How a program serves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Where.
    pub listen: SocketAddr,
    /// On how many threads for requests.
    pub workers: usize,
    /// On how many threads for work that blocks at most, if not as many as the library comes with.
    pub blocking: Option<usize>,
    /// Whether work is done within the handler, against all advice.
    pub inline: bool,
}

impl Options {
    /// From the command line; panics with a reason if it is wrong.
    pub fn read() -> Self {
        let mut options = Self {
            listen: ([127, 0, 0, 1], 0).into(),
            workers: 2,
            blocking: None,
            inline: false,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .unwrap_or_else(|| panic!("{word} needs a value"))
            };
            match word.as_str() {
                "--listen" => options.listen = value().parse().expect("an address"),
                "--workers" => options.workers = value().parse().expect("a number"),
                "--blocking" => options.blocking = Some(value().parse().expect("a number")),
                "--inline" => options.inline = true,
                _ => panic!("unknown option {word}"),
            }
        }
        options
    }
}
