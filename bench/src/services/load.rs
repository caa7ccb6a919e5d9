//! Load on a service, from one thread that never waits for an answer before it looks after the others.
//!
//! In an open loop the schedule alone says when a request is sent. What is sent late, because the service or this thread was
//! busy, counts from the moment when it was due: a service that stands still is not spared the requests of that time. In a closed
//! loop each connection sends its next request as soon as it has an answer, which finds out how many the service can do.
//!
//! In an open loop the thread asks for the highest priority, which it has only if it is allowed to: otherwise the service, which may
//! use all processors, would decide how late the answers are seen. If more than a few thousand are due in a second it looks
//! only every fifth of a millisecond, for waking up for each of them would cost more than all the rest.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};

use super::answer::Malformed;
use super::connection::{Connection, Progress};
use super::outcome::{Kind, Outcome};
use super::schedule::Schedule;
use super::watch::{Watch, Woken};

/// The variable that, if it is set, leaves the thread at the priority that it was started with: for machines that others use, too.
pub const ORDINARY_VARIABLE: &str = "HIVEWIRE_BENCH_ORDINARY_PRIORITY";

/// What an answer may be seen too late by if very many are due.
const GRAIN: Duration = Duration::from_micros(200);

/// What can go wrong with a load. That a service does not answer is no error, but an outcome.
#[derive(Debug, thiserror::Error)]
pub enum ServiceLoadError {
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// An answer is not HTTP as it is understood here.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A service gave a wrong answer with status 200.
    #[error("the answer to {request:?} is not {expected:?}")]
    Wrong {
        /// The first line of the request.
        request: String,
        /// The right answer.
        expected: String,
    },
}

pub(super) fn system(action: &'static str) -> impl FnOnce(std::io::Error) -> ServiceLoadError {
    move |source| ServiceLoadError::System { action, source }
}

/// The result of putting load on a service.
pub type Result<T> = std::result::Result<T, ServiceLoadError>;

/// One of the requests that are sent, again and again.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is sent.
    pub bytes: Vec<u8>,
    /// The body of the right answer.
    pub expected: String,
    /// The kind whose figures it belongs to, from 0 on.
    pub kind: usize,
}

impl Request {
    /// One without a body.
    pub fn new(method: &str, path: &str, expected: impl Into<String>, kind: usize) -> Self {
        let length = match method {
            "GET" => "",
            _ => "Content-Length: 0\r\n",
        };
        Self {
            bytes: format!("{method} {path} HTTP/1.1\r\nHost: bench\r\n{length}\r\n").into_bytes(),
            expected: expected.into(),
            kind,
        }
    }

    fn first_line(&self) -> String {
        let line = self.bytes.split(|byte| *byte == b'\r').next();
        String::from_utf8_lossy(line.unwrap_or_default()).into_owned()
    }
}

/// A service and what it is asked.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is asked.
    pub requests: Vec<Request>,
    /// How many connections are open from the beginning. In a closed loop there are no others.
    pub connections: usize,
    /// How many there are at most, if those are all waiting for answers.
    pub connections_max: usize,
    /// When the client gives up on a request.
    pub timeout: Duration,
}

impl Load {
    /// Sends what is due when it is due.
    pub fn open(&self, schedule: &Schedule) -> Result<Outcome> {
        let window = (schedule.warm_up, schedule.warm_up + schedule.counted);
        // The priority of a thread cannot be taken back without rights, so it ends with its thread.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if std::env::var_os(ORDINARY_VARIABLE).is_none() {
                    // Refused to ordinary users, who see in `sent_late_p99_us` what it costs.
                    let _ = setpriority_process(None, -20);
                }
                Run::new(self, window)?.open(schedule)
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Sends the next request of an endless circle on each connection that is free.
    pub fn closed(
        &self,
        circle: &[usize],
        warm_up: Duration,
        counted: Duration,
    ) -> Result<Outcome> {
        let window = (warm_up, warm_up + counted);
        Run::new(self, window)?.closed(circle)
    }
}

/// One connection and the request that is open on it.
struct Slot {
    connection: Connection,
    /// Counts the requests of the slot, so that what is no longer open is known as such.
    turn: u64,
    open: Option<Open>,
}

#[derive(Clone, Copy)]
struct Open {
    request: usize,
    due: Duration,
}

struct Run<'a> {
    load: &'a Load,
    watch: Watch,
    begin: Instant,
    /// What is due, or in a closed loop what is answered, from the first until the second counts.
    window: (Duration, Duration),
    is_closed: bool,
    slots: Vec<Slot>,
    /// The one that was free for longest comes first, so that all are used: a server may have tied each to one of its workers.
    free: VecDeque<usize>,
    /// What is due and has no connection yet.
    waiting: VecDeque<Open>,
    /// In the order of sending: when the client gives up, on which turn of which slot.
    deadlines: VecDeque<(Duration, usize, u64)>,
    kinds: Vec<Kind>,
    sent_late: Histogram<u64>,
}

impl<'a> Run<'a> {
    fn new(load: &'a Load, window: (Duration, Duration)) -> Result<Self> {
        let kinds = load.requests.iter().map(|request| request.kind + 1).max();
        let mut run = Self {
            load,
            watch: Watch::new()?,
            begin: Instant::now(),
            window,
            is_closed: false,
            slots: Vec::with_capacity(load.connections),
            free: VecDeque::with_capacity(load.connections),
            waiting: VecDeque::new(),
            deadlines: VecDeque::new(),
            kinds: vec![Kind::new(load.timeout); kinds.unwrap_or_default()],
            sent_late: Histogram::new(3).expect("three digits are right"),
        };
        for _ in 0..load.connections {
            let slot = run.add_slot()?;
            run.free.push_back(slot);
        }
        Ok(run)
    }

    fn add_slot(&mut self) -> Result<usize> {
        let slot = self.slots.len();
        let connection = self.connect(slot)?;
        self.slots.push(Slot {
            connection,
            turn: 0,
            open: None,
        });
        Ok(slot)
    }

    fn connect(&self, slot: usize) -> Result<Connection> {
        let connection = Connection::open(self.load.address).map_err(system("connect"))?;
        self.watch.add(connection.stream(), slot)?;
        Ok(connection)
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn open(mut self, schedule: &Schedule) -> Result<Outcome> {
        let (begin, used) = self.start();
        let grain = grain(schedule);
        let mut dues = schedule.dues.iter().peekable();
        loop {
            if !grain.is_zero() {
                std::thread::sleep(grain);
            }
            let now = self.now();
            while let Some(due) = dues.next_if(|due| due.at <= now) {
                self.waiting.push_back(Open {
                    request: due.request,
                    due: due.at,
                });
            }
            self.send_waiting()?;
            self.give_up(now)?;
            let next_due = dues.peek().map(|due| due.at);
            let next_deadline = self.next_deadline();
            let Some(next) = next_due.into_iter().chain(next_deadline).min() else {
                break;
            };
            let looks_at_once = !grain.is_zero() && next < now + grain;
            self.wait_until(if looks_at_once { now } else { next })?;
        }
        Ok(self.outcome(begin, used))
    }

    fn closed(mut self, circle: &[usize]) -> Result<Outcome> {
        self.is_closed = true;
        let (begin, used) = self.start();
        let mut circle = circle.iter().copied().cycle();
        while self.now() < self.window.1 {
            while let Some(slot) = self.free.pop_front() {
                let due = self.now();
                let request = circle.next().expect("a circle has no end");
                self.send(slot, Open { request, due })?;
            }
            self.give_up(self.now())?;
            let next = self.next_deadline().unwrap_or(self.window.1);
            self.wait_until(next.min(self.window.1))?;
        }
        Ok(self.outcome(begin, used))
    }

    /// Connecting is over, and time begins.
    fn start(&mut self) -> (Instant, Duration) {
        self.begin = Instant::now();
        (self.begin, thread_time())
    }

    fn outcome(self, begin: Instant, used_before: Duration) -> Outcome {
        let used = thread_time() - used_before;
        Outcome {
            kinds: self.kinds,
            counted: self.window.1 - self.window.0,
            sent_late_p99_us: self.sent_late.value_at_percentile(99.0),
            connections: self.slots.len(),
            own_processor: used.as_secs_f64() / begin.elapsed().as_secs_f64(),
        }
    }

    fn send_waiting(&mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            let slot = match self.free.pop_front() {
                Some(slot) => slot,
                None if self.slots.len() < self.load.connections_max => self.add_slot()?,
                None => return Ok(()),
            };
            let open = self.waiting.pop_front().expect("there is one");
            let late = self.now().saturating_sub(open.due);
            self.sent_late.saturating_record(late.as_micros() as u64);
            self.send(slot, open)?;
        }
        Ok(())
    }

    fn send(&mut self, slot: usize, open: Open) -> Result<()> {
        let load = self.load;
        let own = &mut self.slots[slot];
        own.turn += 1;
        own.open = Some(open);
        let deadline = open.due + load.timeout;
        self.deadlines.push_back((deadline, slot, own.turn));
        if !own.connection.send(&load.requests[open.request].bytes) {
            // The server hung up while the connection was free, as it may: the request was not lost, and gets another.
            self.replace(slot)?;
            self.slots[slot]
                .connection
                .send(&load.requests[open.request].bytes);
        }
        Ok(())
    }

    /// When the client gives up on what it has waited for longest.
    fn next_deadline(&mut self) -> Option<Duration> {
        while let Some((deadline, slot, turn)) = self.deadlines.front().copied() {
            if self.slots[slot].turn == turn && self.slots[slot].open.is_some() {
                return Some(deadline);
            }
            self.deadlines.pop_front();
        }
        self.waiting
            .front()
            .map(|open| open.due + self.load.timeout)
    }

    /// Gives up on what was due too long ago. Its connection is closed, as any client would.
    fn give_up(&mut self, now: Duration) -> Result<()> {
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            // Cleaned by `next_deadline`: what is first is open, and if nothing is open what waits is meant.
            let open = match self.deadlines.pop_front() {
                Some((_, slot, _)) => {
                    self.replace(slot)?;
                    self.free.push_back(slot);
                    self.slots[slot].open.take()
                }
                None => self.waiting.pop_front(),
            };
            if let Some(open) = open {
                self.count(open, now, |kind| kind.late += 1);
            }
        }
        Ok(())
    }

    /// A new connection in place of one that has ended.
    fn replace(&mut self, slot: usize) -> Result<()> {
        self.slots[slot].connection = self.connect(slot)?;
        Ok(())
    }

    fn wait_until(&mut self, next: Duration) -> Result<()> {
        let wait = next.saturating_sub(self.now());
        for woken in self.watch.wait(wait)? {
            self.look_after(woken)?;
        }
        Ok(())
    }

    fn look_after(&mut self, woken: Woken) -> Result<()> {
        let (load, slot) = (self.load, woken.slot);
        let own = &mut self.slots[slot];
        if woken.writable && !own.connection.flush() {
            return self.hung_up(slot);
        }
        if !woken.readable {
            return Ok(());
        }
        let expected = own
            .open
            .map(|open| load.requests[open.request].expected.as_bytes());
        match own.connection.receive(expected.unwrap_or_default())? {
            Progress::Waiting => Ok(()),
            Progress::Ended => self.hung_up(slot),
            Progress::Answered {
                status,
                right,
                closes,
            } => {
                let Some(open) = own.open.take() else {
                    return self.replace(slot);
                };
                if status == 200 && !right {
                    return Err(wrong(&load.requests[open.request]));
                }
                if closes {
                    self.replace(slot)?;
                }
                self.free.push_back(slot);
                let now = self.now();
                let in_time = now <= open.due + load.timeout;
                self.count(open, now, |kind| match (status, in_time) {
                    (200, true) => kind.answered += 1,
                    (200, false) => kind.late += 1,
                    _ => kind.refused += 1,
                });
                Ok(())
            }
        }
    }

    fn hung_up(&mut self, slot: usize) -> Result<()> {
        let open = self.slots[slot].open.take();
        self.replace(slot)?;
        if let Some(open) = open {
            self.free.push_back(slot);
            let now = self.now();
            self.count(open, now, |kind| kind.lost += 1);
        }
        Ok(())
    }

    fn count(&mut self, open: Open, now: Duration, what: impl FnOnce(&mut Kind)) {
        let decides = if self.is_closed { now } else { open.due };
        if decides < self.window.0 || decides >= self.window.1 {
            return;
        }
        let kind = &mut self.kinds[self.load.requests[open.request].kind];
        let before = kind.answered;
        what(kind);
        let latency = match kind.answered > before {
            true => now.saturating_sub(open.due),
            false => self.load.timeout,
        };
        kind.record(latency);
    }
}

/// How long nothing is looked at, if requests follow one another faster than one can look.
fn grain(schedule: &Schedule) -> Duration {
    let count = schedule.dues.len().max(1) as f64;
    let gap = (schedule.warm_up + schedule.counted).as_secs_f64() / count;
    if gap < GRAIN.as_secs_f64() {
        GRAIN
    } else {
        Duration::ZERO
    }
}

fn wrong(request: &Request) -> ServiceLoadError {
    ServiceLoadError::Wrong {
        request: request.first_line(),
        expected: request.expected.clone(),
    }
}

/// What this thread has used of a processor.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::super::schedule::Arrivals;
    use super::*;

    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
    const WRONG: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno";
    const COUNT: u64 = 800;
    const FAULTY: u64 = 50;
    const TIMEOUT: Duration = Duration::from_secs(2);

    /// What becomes of one request; all others are answered.
    #[derive(Clone, Copy)]
    enum Fault {
        None,
        Answer(&'static [u8]),
        Silence,
        HangUp,
        /// Nobody is served for so long.
        Pause(Duration),
    }

    /// A service of one thread that answers one connection after another, as long as the test runs.
    fn serve(fault: Fault) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let served = std::sync::Mutex::new(0_u64);
        let served = std::sync::Arc::new(served);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                // Ends with its connection, which the load closes.
                std::thread::spawn(move || answer_all(stream, &served, fault));
            }
        });
        address
    }

    fn answer_all(mut stream: TcpStream, served: &std::sync::Mutex<u64>, fault: Fault) {
        let mut bytes = [0; 1_024];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
            let mut number = served.lock().expect("not poisoned");
            *number += 1;
            let answer = match fault {
                _ if *number != FAULTY => GOOD,
                Fault::None => GOOD,
                Fault::Answer(answer) => answer,
                Fault::Silence => continue,
                Fault::HangUp => return,
                Fault::Pause(time) => {
                    // With the lock held, so that all wait.
                    std::thread::sleep(time);
                    GOOD
                }
            };
            drop(number);
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }

    fn load(fault: Fault) -> Load {
        Load {
            address: serve(fault),
            requests: vec![Request::new("GET", "/", "ok", 0)],
            connections: 4,
            connections_max: 16,
            timeout: TIMEOUT,
        }
    }

    fn open(fault: Fault) -> Result<Outcome> {
        let times = (Duration::ZERO, Duration::from_millis(COUNT));
        let schedule = Schedule::new(Arrivals::Even, 1_000.0, times, 1, |_| 0);
        load(fault).open(&schedule)
    }

    /// Due, answered, refused, late, lost.
    fn counts(outcome: &Outcome) -> [u64; 5] {
        let kind = &outcome.kinds[0];
        [kind.due, kind.answered, kind.refused, kind.late, kind.lost]
    }

    #[test]
    fn what_is_answered_rightly_is_counted_and_nothing_else() {
        let outcome = open(Fault::None).expect("it runs");
        let [due, answered, rest @ ..] = counts(&outcome);
        assert!(due >= COUNT && due == answered && rest == [0; 3]);
        assert_eq!(outcome.failures(), "");
        let outcome = open(Fault::Answer(BUSY)).expect("it runs");
        assert_eq!(counts(&outcome)[1..], [due - 1, 1, 0, 0]);
        let outcome = open(Fault::Silence).expect("it runs");
        assert_eq!(counts(&outcome)[1..], [due - 1, 0, 1, 0]);
        let outcome = open(Fault::HangUp).expect("it runs");
        assert_eq!(counts(&outcome)[1..], [due - 1, 0, 0, 1]);
        assert_eq!(outcome.failures(), "1 hung up on");
    }

    #[test]
    fn what_is_not_answered_counts_as_the_longest_wait() {
        for fault in [Fault::Answer(BUSY), Fault::Silence, Fault::HangUp] {
            let outcome = open(fault).expect("it runs");
            let longest = outcome.kinds[0].percentile_ms(100.0);
            assert!(longest >= 1_999.0, "{longest}");
        }
    }

    #[test]
    fn a_wrong_answer_is_an_error() {
        let error = open(Fault::Answer(WRONG)).unwrap_err().to_string();
        assert!(error.contains("GET / HTTP/1.1"), "{error}");
    }

    #[test]
    fn a_pause_is_felt_by_all_that_were_due_in_it() {
        let pause = Duration::from_millis(400);
        let outcome = open(Fault::Pause(pause)).expect("it runs");
        // Half of the requests were due in it, so a quarter waited for at least half of it. One that had only been sent after
        // the one before was answered would have waited for nothing.
        assert_eq!(counts(&outcome)[0], counts(&outcome)[1]);
        let felt = outcome.kinds[0].percentile_ms(80.0);
        assert!(felt >= 200.0, "{felt}");
        let closed = load(Fault::Pause(pause))
            .closed(&[0], Duration::ZERO, Duration::from_millis(COUNT))
            .expect("it runs");
        let felt = closed.kinds[0].percentile_ms(80.0);
        assert!(felt < 200.0, "a closed loop does not feel it: {felt}");
    }
}
