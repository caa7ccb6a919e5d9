//! The words of a command line.

/// One command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Asks for the list of commands.
    Help,
    /// Publishes a message.
    Publish {
        /// Where to: a queue, or a topic as `topic:<name>`.
        name: &'a str,
        /// The body, with the newline before the final full stop.
        body: &'a [u8],
    },
    /// Asks for the messages of a queue or topic.
    Subscribe {
        /// A queue, or a topic as `topic:<name>`.
        name: &'a str,
    },
    /// Asks whether the server is there.
    PingRequest,
    /// Ends the session.
    Disconnect,
    /// Turns the answer to each publish on or off.
    SetAck(bool),
    /// Ends a queue.
    Close {
        /// The queue.
        name: &'a str,
    },
    /// A blank line, to be ignored.
    Blank,
    /// The line is no command.
    Unrecognised(&'a [u8]),
    /// The command needs a word after it. The body of a `PUB` has been read and left out.
    MissingArgument {
        /// The command.
        command: &'static str,
    },
    /// The word after the command cannot be used. The body of a `PUB` has been read and left out.
    BadArgument {
        /// The command.
        command: &'static str,
        /// What is wrong with it.
        reason: BadArgument,
    },
}

/// What is wrong with the word after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadArgument {
    /// The name is not UTF-8.
    NotUtf8,
    /// The name is longer than the limit allows.
    NameTooLong {
        /// The limit.
        name_bytes_max: usize,
    },
    /// `SETACK` is followed by something other than `on` or `off`.
    NotOnOrOff,
}

impl std::fmt::Display for BadArgument {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotUtf8 => formatter.write_str("the name is not UTF-8"),
            Self::NameTooLong { name_bytes_max } => {
                write!(formatter, "the name is longer than {name_bytes_max} bytes")
            }
            Self::NotOnOrOff => formatter.write_str("on or off is expected"),
        }
    }
}

/// True if body lines follow this line. That holds for a `PUB` with a bad name as well: were its
/// body taken for commands, a message could say CLOSE.
#[inline]
pub(super) fn is_publish(line: &[u8]) -> bool {
    first_word(line).0.eq_ignore_ascii_case(b"PUB")
}

/// The command on a line; `body` is what followed it, if it is a publish.
#[inline]
pub(super) fn parse<'a>(line: &'a [u8], body: &'a [u8], name_bytes_max: usize) -> Command<'a> {
    let (word, rest) = first_word(line);
    if word.eq_ignore_ascii_case(b"PUB") {
        return named("PUB", rest, name_bytes_max, |name| Command::Publish {
            name,
            body,
        });
    }
    if word.eq_ignore_ascii_case(b"SUB") {
        return named("SUB", rest, name_bytes_max, |name| Command::Subscribe {
            name,
        });
    }
    if word.eq_ignore_ascii_case(b"CLOSE") {
        return named("CLOSE", rest, name_bytes_max, |name| Command::Close {
            name,
        });
    }
    if word.eq_ignore_ascii_case(b"SETACK") {
        return set_ack(rest);
    }
    parse_single_word(word, line)
}

fn parse_single_word<'a>(word: &[u8], line: &'a [u8]) -> Command<'a> {
    let is = |command: &str| word.eq_ignore_ascii_case(command.as_bytes());
    if word.is_empty() {
        Command::Blank
    } else if is("PINGREQ") {
        Command::PingRequest
    } else if is("HELP") {
        Command::Help
    } else if is("DISCONNECT") {
        Command::Disconnect
    } else {
        Command::Unrecognised(line.trim_ascii())
    }
}

#[inline]
fn named<'a>(
    command: &'static str,
    rest: &'a [u8],
    name_bytes_max: usize,
    build: impl FnOnce(&'a str) -> Command<'a>,
) -> Command<'a> {
    let (name, _) = first_word(rest);
    if name.is_empty() {
        return Command::MissingArgument { command };
    }
    if name.len() > name_bytes_max {
        let reason = BadArgument::NameTooLong { name_bytes_max };
        return Command::BadArgument { command, reason };
    }
    match std::str::from_utf8(name) {
        Ok(name) => build(name),
        Err(_) => Command::BadArgument {
            command,
            reason: BadArgument::NotUtf8,
        },
    }
}

fn set_ack(rest: &[u8]) -> Command<'_> {
    let (word, _) = first_word(rest);
    let command = "SETACK";
    if word.is_empty() {
        Command::MissingArgument { command }
    } else if word.eq_ignore_ascii_case(b"on") {
        Command::SetAck(true)
    } else if word.eq_ignore_ascii_case(b"off") {
        Command::SetAck(false)
    } else {
        let reason = BadArgument::NotOnOrOff;
        Command::BadArgument { command, reason }
    }
}

/// The first word, which is empty if there is none, and what follows it.
#[inline]
fn first_word(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.trim_ascii_start();
    let end = line.iter().position(u8::is_ascii_whitespace);
    line.split_at(end.unwrap_or(line.len()))
}
