//! The page for people, which other benchmarks may share: only what stands between two marks
//! is ours.

use super::{COLUMNS, Machine, Row, line};
use crate::cases::Case;

const BEGIN: &str = "<!-- begin: written by hivewire-bench -->";
const END: &str = "<!-- end: written by hivewire-bench -->";
const TITLE: &str = "# Benchmarks\n\n";

const BROKERS: &str = "\
Each row compares Hivewire with one other system, on one machine, over loopback, one producer and
one consumer, bodies of 128 bytes if nothing else is said. Both systems run as they come, are
measured in turn (ours, theirs, ours, …) at least five times for about a second and a half each,
and the medians are compared. The ratio is our figure divided by theirs.

The client is the same code for all systems: the same loops write in batches of 64 KiB, read up to
256 KiB at once and compare every byte of every body; only the few lines that write and read a
protocol's frames differ, and over STOMP not even those. A run in which a message is lost, doubled
or changed is an error, not a figure; over UDP, losses are counted instead. The client shares the
machine's cores with the system that it measures.

Published figures of other systems come from their authors' machines; such a row shows the order
of magnitude and no more.
";

const WORKERS: &str = "\
Workers and the actors of other libraries run in the process that measures them, in turn, each
repetition with a tokio runtime of its own that has one thread per core; Hivewire's runtime has as
many threads for turns besides. The same loops send the same bodies of 128 bytes, each made anew, and
every receiver checks the number in every body: a message that is lost, doubled or out of order is
an error, not a figure. Each library is driven as its documentation says. The peers' actors take the
body as part of their own message type, ours as a message that could as well come from the network.

Where the other column says what we allow there is no peer; the ratio is the share of it that is used.
";

const STAGES: &str = "\
A stage of one worker takes durable messages of 128 bytes from one queue of a server and sends each
on to another one; input and output are committed together. The bare relay beside it does what a
program without Hivewire would: it consumes, publishes without waiting for each confirm, and
acknowledges what is confirmed, with the client library that our engine uses (AMQP) or the driver of
the rows above (STOMP). Both relays work between queues of the same kind (RabbitMQ: quorum queues)
with at most 4,096 messages unacknowledged, in turn, each repetition with new queues.

The input is filled before. The figure is what arrives in the output per second, from the first to
the last message, as the server tells its length; then everything is taken out, and a message that
is lost, doubled or changed is an error, not a figure. Server, shared store (PostgreSQL, which syncs
every commit) and relay share the machine's cores; the bare relay has no store.
";

const FLOWS: &str = "\
Events go through stages in memory on one node; the process that measures holds everything. Every event
is a message of its own; providers give them in series of 256, which workers that can handle as such. Where the other column says what we require there is no peer; the ratio is how
often our figure holds it.

The queries of Nexmark run over the events of an auction house: of fifty in a row one is a person, three are
auctions and the others bids. A generator of our own makes each event from its number alone, so all engines get
the same ones. The figure is events per second until the last result. The results of a query make one checksum
that does not depend on their order, and one that differs from that of a plain loop is an error, not a figure.

Ours is a provider, a stage of one worker for the query, and one that sums results up, linked in and in memory. In the first three
queries, to which order does not matter, the provider has two workers, each of which makes half of the events. Where
a query has to divide events by key there are more stages, one of them keyed, with two workers that keep what belongs to
their buckets in their own memory; how far time is, and that the end has come, is a message to each bucket. timely runs two
workers, each of which makes half of the events and sums up its own results. In the first three queries no event leaves its
thread; in the others they are exchanged by key, and its operators keep the same in the same kind of maps as our workers. Both
make the events while the clock runs. Bytewax runs in a process of its own, one worker, without recovery, with the operators
that it has for windows and joins; its events are in memory before its clock begins and its results are summed up after it
ends, which favours it; in the rows of built-in plug-ins (`flow-plugins-…`) ours is measured in the same way. Ten thousand events make a second of event time. Word count runs over lines of words, by the same rules.

In the rows on how late events are the load is open: an event has a time at which it is due, however late those before are, and
counts as late from then on. What is lost, doubled or out of order within its key is an error, not a figure.

![Events handled, workers and average latency over the 250 s of the staircase, with scaling and without](plots/staircase.svg)
";

const CRAWLS: &str = "\
Crawlers share the machine and its two cores with the nginx that serves them. Pages are made from their numbers: 7 to 12 KB of
words, 20 to 30 links, some of them to a part that `robots.txt` closes. The server writes down what it sent: a crawl that leaves
out a page, or has one that is closed, is an error, not a figure. Ours is a node with its defaults and the command `hivewire
crawl --rate unlimited`, with a new data folder each time; its time goes from the command to the moment when every page is
stored. Scrapy and spider are programs of a few lines, as their documentation shows them, in processes of their own; their time
begins when they do, without the start of the process.

![Workers of each stage over the time of a crawl](plots/crawl.svg)
";

const STUDIO_PAGES: &str = "\
The studio runs in Debian's Chromium, without a window and without a graphics processor, so all of it is drawn by the two cores that
the node uses, too. The browser is driven by Playwright, with a new profile each time, in front of a node with its defaults.

There is no peer; the ratio is the share of what we allow that is used.
";

const SERVICES: &str = "\
Services are programs that serve the same routes, each in a process of its own that is started anew for each run: ours with two event
loops, axum and actix-web with two workers each and work in `spawn_blocking` or `web::block` as their documentation advises, state behind
a `RwLock` of parking_lot, and Node in one process and in a cluster of two. Before a run every route is asked, and one answer that
differs from what the others give is an error, not a figure; so is one during the run, or an exclusive request whose result was not stored.
The kernels of SciMark 2.0 give the same bits in Rust and in JavaScript.

The client is one thread of the process that measures and shares the two cores with the service. In an open loop it sends by a schedule
that was fixed before, evenly and with the heavy requests at places drawn by lot, the same for all in each repetition, and takes latencies from the moment
when a request was due. A client that has waited for 5 s gives up. In a closed loop each connection sends its next
request when it has an answer. Heavy requests are calibrated at the start to use 100 ms of a processor, in Rust and in JavaScript each by itself.
The first two seconds do not count. A run serves for all rows that look at it.

![Answers in time and p99 of light requests by share of heavy ones](plots/services-fibonacci.svg)

![Answers by share of exclusive requests](plots/services-scimark-state.svg)

![Answers in time and p99 by requests in a second](plots/services-scimark-rates.svg)
";

const REPEAT: &str = "\
To repeat it: `tests/tools/install bench`, `cargo build --release`,
`cargo run --release -p hivewire-bench`. With `--only NAME` one case runs and only its row changes;
`--quick` shows in a few minutes that all cases work and writes nothing. `HIVEWIRE_BENCH_DIR` names
the directory, and so the disk, that holds the data.
";

/// How the names of cases begin that have a part of their own.
const WORKER: &str = "worker-";
const STAGE: &str = "stage-";
const FLOW: &str = "flow-";
const NEXMARK: &str = "nexmark-";
const WORD: &str = "word-";
const CRAWL: &str = "crawl-";
const STUDIO: &str = "studio-";
const SERVICE: &str = "service-";

fn kind_of(case: &Case) -> Option<&'static str> {
    let kinds = [
        (WORKER, WORKER),
        (STAGE, STAGE),
        (FLOW, FLOW),
        (NEXMARK, FLOW),
        (WORD, FLOW),
        (CRAWL, CRAWL),
        (STUDIO, STUDIO),
        (SERVICE, SERVICE),
    ];
    let found = kinds.iter().find(|(begin, _)| case.name.starts_with(begin));
    found.map(|(_, kind)| *kind)
}

/// Writes our part of the page.
pub fn document(cases: &[&Case], rows: &[Row], machine: &Machine) -> String {
    let mut text = format!("{BEGIN}\n{REPEAT}\n## Machine\n\n");
    for (name, value) in &machine.facts {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    for (title, method, kind) in [
        ("Brokers", BROKERS, None),
        ("Workers", WORKERS, Some(WORKER)),
        ("Streams of events", FLOWS, Some(FLOW)),
        ("Crawlers", CRAWLS, Some(CRAWL)),
        ("Studio", STUDIO_PAGES, Some(STUDIO)),
        ("Services", SERVICES, Some(SERVICE)),
        ("Stages over the network", STAGES, Some(STAGE)),
    ] {
        let cases = cases.iter().filter(|case| kind_of(case) == kind);
        let cases: Vec<&Case> = cases.copied().collect();
        // What was never measured has no plots, either.
        let is_measured = |case: &&Case| rows.iter().any(|row| row.name == case.name);
        if !cases.iter().any(is_measured) {
            continue;
        }
        text.push_str(&format!("\n## {title}\n\n{method}\n"));
        section(&mut text, &cases, rows);
    }
    text.push_str(END);
    text.push('\n');
    text
}

/// A table of cases and what each of them measures.
fn section(text: &mut String, cases: &[&Case], rows: &[Row]) {
    let row_of = |case: &Case| rows.iter().find(|row| row.name == case.name);
    text.push_str(&format!("### Results\n\n| {} |\n", COLUMNS.join(" | ")));
    text.push_str(&format!("|{}\n", "---|".repeat(COLUMNS.len())));
    for case in cases {
        let cells = line(case, row_of(case)).cells;
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text.push_str("\n### What was measured\n\n");
    for case in cases {
        text.push_str(&format!("- **{}**: {}", case.name, case.description));
        if let Some(row) = row_of(case).filter(|row| !row.note.is_empty()) {
            text.push_str(&format!(" Seen: {}.", row.note));
        }
        text.push('\n');
    }
}

/// Puts our part in place of the old one, or at the end if there is none.
pub fn merge_document(page: &str, part: &str) -> String {
    let old = page
        .find(BEGIN)
        .zip(page.find(END))
        .filter(|(begin, end)| begin < end);
    match old {
        Some((begin, end)) => {
            let rest = page[end + END.len()..].trim_start_matches('\n');
            let gap = if rest.is_empty() { "" } else { "\n" };
            format!("{}{part}{gap}{rest}", &page[..begin])
        }
        None if page.trim().is_empty() => format!("{TITLE}{part}"),
        None => format!("{}\n\n{part}", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    fn machine() -> Machine {
        Machine {
            facts: vec![("cores", "2".to_owned())],
        }
    }

    #[test]
    fn every_case_has_its_row() {
        let all = cases::all();
        let row = |name: &str| Row {
            name: name.to_owned(),
            ours: 40.0,
            peer: 100.0,
            peer_name: "RabbitMQ (STOMP)".to_owned(),
            ratio: 0.4,
            unit: "µs".to_owned(),
            note: "p99 90 µs".to_owned(),
        };
        let rows: Vec<Row> = all.iter().map(|case| row(case.name)).collect();
        let text = document(&all, &rows, &machine());
        for case in &all {
            assert!(
                text.contains(&format!("| {} |", case.name)),
                "{}",
                case.name
            );
        }
        assert!(text.contains("| 40.0 µs | 100.0 µs |"));
        assert!(text.contains("0.40× | ≤ 0.5× | yes"));
        assert!(text.contains("Seen: p99 90 µs."));
    }

    #[test]
    fn what_was_never_measured_is_not_there() {
        let text = document(&cases::all(), &[], &machine());
        assert!(!text.contains("### Results"), "{text}");
    }

    #[test]
    fn what_others_wrote_is_kept() {
        let part = |word: &str| format!("{BEGIN}\n{word}\n{END}\n");
        let page = merge_document("", &part("old"));
        assert!(page.starts_with(TITLE));
        let page = format!("{page}\n## Others\n\nkept\n");
        let page = merge_document(&page, &part("new"));
        assert!(page.contains("new") && !page.contains("old"));
        assert!(page.ends_with("\n\n## Others\n\nkept\n"));
        assert_eq!(merge_document(&page, &part("new")), page);
    }
}
