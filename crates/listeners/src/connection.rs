//! Runs one TCP connection for a session of any protocol.
//!
//! One task per connection waits for whatever comes first: bytes, deliveries, a sync of the
//! journal, room to write, time. Buffers are borrowed only while there is something to read or write.
//! Deliveries are encoded just before they are written; when the client's side is full, what does
//! not fit is kept as messages, which are shared with their queue or topic, and not as bytes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use broker::{Broker, Delivery, Entry};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Sleep, timeout};

use crate::buffers::{BUFFER_BYTES, ReadBuffer, WriteBuffer};
use crate::clients::Client;
use crate::counters::Counters;
use crate::encryption::Encryption;
use crate::session::{Progress, Session, Stop};

/// With so many unwritten answers a client is not read from.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// After so many full buffers a connection lets others run.
const ROUNDS_MAX: usize = 4;

/// How long the last answers may take to be written and synced.
const LAST_ANSWERS_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client that was told to go may take to hang up.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);

/// An unused buffer larger than this is given back.
const IDLE_BYTES_MAX: usize = 4 * 1024;

/// Runs a connection until it ends.
pub(crate) async fn run<S: Session>(
    mut stream: TcpStream,
    encryption: Option<Encryption>,
    session: S,
    broker: Arc<Broker>,
    counters: Counters,
    client: Arc<Client>,
    shutdown: watch::Receiver<bool>,
) {
    let (read, write) = stream.split();
    let mut connection = Connection {
        write,
        encryption,
        session,
        broker,
        counters,
        client,
        input: Input::default(),
        output: Output::default(),
        stop: None,
        stop_by: None,
        ending: Vec::new(),
    };
    connection.serve(read, shutdown.clone()).await;
    let answered = connection.stop == Some(Stop::AfterAnswers);
    if let Some(mut encryption) = connection.encryption {
        encryption.close(&connection.write);
    }
    let unsent = connection.output.into_unsent();
    connection.session.close(unsent);
    if answered && !*shutdown.borrow() {
        // It has been told all there is to say; if it does not hang up, we do.
        let _ = timeout(LINGER_TIME_MAX, linger(stream)).await;
    }
}

/// Waits until the client hangs up. If bytes of it still arrived after our end was closed, the system
/// would reset the connection, and the last answer might never be read.
async fn linger(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    loop {
        stream.readable().await?;
        match stream.try_read(&mut ReadBuffer::borrow()) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

struct Connection<'a, S> {
    write: WriteHalf<'a>,
    encryption: Option<Encryption>,
    session: S,
    broker: Arc<Broker>,
    counters: Counters,
    client: Arc<Client>,
    input: Input,
    output: Output,
    stop: Option<Stop>,
    /// When a connection that is about to end is cut off.
    stop_by: Option<Instant>,
    /// Subscriptions to end as soon as no delivery of theirs is half written.
    ending: Vec<u32>,
}

impl<S: Session> Connection<'_, S> {
    async fn serve(&mut self, mut read: ReadHalf<'_>, mut shutdown: watch::Receiver<bool>) {
        let outbox = self.session.outbox().clone();
        let client = self.client.clone();
        let mut syncs = self.broker.journal().watch();
        let mut timer = Timer::default();
        loop {
            self.end_subscriptions();
            let Ok(flushed) = self.flush() else { return };
            if self.is_over(&flushed) {
                return;
            }
            timer.arm(self.next_deadline());
            let owed_bytes = self.output.answers.len() + self.session.waiting_bytes();
            let reading = self.stop.is_none() && owed_bytes < ANSWER_BYTES_MAX;
            tokio::select! {
                got = self.input.read(&mut read, &self.write, self.encryption.as_mut()), if reading => {
                    if !self.received(got).await {
                        return;
                    }
                }
                () = outbox.filled(), if flushed == Flushed::All => {}
                _ = syncs.changed(), if self.session.awaits_sync() => {
                    let durable = *syncs.borrow_and_update();
                    let result = self.session.synced(durable, &mut self.output.answers);
                    self.stop_on(result);
                }
                _ = self.write.writable(), if flushed == Flushed::Blocked => {}
                () = tokio::task::yield_now(), if flushed == Flushed::Partly => {}
                () = client.called() => {
                    if client.answer(|| self.session.describe()) && self.stop.is_none() {
                        self.session.goodbye(&mut self.output.answers);
                        self.stop(Stop::AfterAnswers);
                    }
                }
                () = timer.elapsed() => self.tick(),
                _ = shutdown.changed(), if self.stop.is_none() => {
                    self.session.goodbye(&mut self.output.answers);
                    self.stop(Stop::AfterAnswers);
                }
            }
        }
    }

    fn end_subscriptions(&mut self) {
        let half_written = self.output.half_written();
        let (later, now) = std::mem::take(&mut self.ending)
            .into_iter()
            .partition(|token| Some(*token) == half_written);
        self.ending = later;
        let now: Vec<u32> = now;
        for token in now {
            let unsent = self.output.take_unsent(token);
            self.session.end_subscription(token, unsent);
        }
    }

    fn is_over(&self, flushed: &Flushed) -> bool {
        match self.stop {
            None => false,
            Some(Stop::Now) => true,
            Some(Stop::AfterAnswers) => {
                *flushed != Flushed::Blocked
                    && self.output.answers.is_empty()
                    && !self.session.awaits_sync()
            }
        }
    }

    fn stop(&mut self, stop: Stop) {
        self.stop = Some(stop);
        self.stop_by = Some(Instant::now() + LAST_ANSWERS_TIME_MAX);
    }

    fn stop_on(&mut self, result: Result<(), Stop>) {
        if let Err(stop) = result {
            self.stop(stop);
        }
    }

    /// Handles what was read; says whether the connection goes on.
    async fn received(&mut self, got: io::Result<Option<ReadBuffer>>) -> bool {
        let Ok(buffer) = got else { return false };
        let mut input = std::mem::take(&mut self.input);
        let Some(bytes) = input.bytes(buffer.as_deref()) else {
            // It sends nothing more, but may still wait for answers.
            self.stop(Stop::AfterAnswers);
            return true;
        };
        let new_bytes = bytes.len() - input.seen_bytes;
        self.counters.bytes_in.inc_by(new_bytes as u64);
        let (left, is_ahead) = self.handle(bytes).await;
        self.ending.extend(self.session.take_ending());
        let begun = match input.begun {
            // The client is not the one who is waited for.
            _ if left == 0 || is_ahead => None,
            Some(begun) if left == bytes.len() => Some(begun),
            // Something was completed, so what is left began just now.
            _ => Some(Instant::now()),
        };
        input.keep(buffer, left, begun);
        input.is_ahead = is_ahead && left > 0;
        self.input = input;
        if self.session.wants_quick_acknowledgements() {
            quick_acknowledge(&self.write);
        }
        true
    }

    /// Lets the session handle its commands; says how many bytes at the end are left, and whether they
    /// are to be handled as soon as answers are written.
    async fn handle(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut rest = bytes;
        loop {
            let received = self.session.receive(rest, &mut self.output.answers);
            rest = &rest[received.consumed..];
            match self.finish(received.progress).await {
                Progress::Done => return (rest.len(), false),
                Progress::AnswersFirst => return (rest.len(), true),
                Progress::NotReady => {}
            }
        }
    }

    /// Waits for the journal, and for room for state, as often as needed. `NotReady` tells that there may be more input.
    async fn finish(&mut self, progress: Result<Progress, Stop>) -> Progress {
        let mut progress = progress;
        let mut waited = Progress::Done;
        loop {
            match progress {
                Ok(Progress::Done) => return waited,
                Ok(Progress::AnswersFirst) => return Progress::AnswersFirst,
                Ok(Progress::NotReady) => {
                    self.broker.ready_for_state().await;
                    waited = Progress::NotReady;
                    progress = self.session.resume(&mut self.output.answers);
                }
                Err(stop) => {
                    self.stop(stop);
                    return Progress::Done;
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.stop_by.is_some() {
            return self.stop_by;
        }
        let command = self
            .input
            .begun
            .map(|begun| begun + self.session.command_time_max());
        [command, self.session.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if let Some(stop_by) = self.stop_by {
            if now >= stop_by {
                self.stop = Some(Stop::Now);
            }
            return;
        }
        let result = self.session.tick(now, &mut self.output.answers);
        self.stop_on(result);
        if let Some(begun) = self.input.begun
            && now >= begun + self.session.command_time_max()
        {
            let stop = self.session.too_slow(&mut self.output.answers);
            self.stop(stop);
        }
    }

    /// Writes as much as the client takes now.
    fn flush(&mut self) -> io::Result<Flushed> {
        if let Some(encryption) = &mut self.encryption {
            encryption.push(&self.write)?;
            if encryption.wants_write() {
                return Ok(Flushed::Blocked);
            }
        }
        let flushed = self.flush_output()?;
        let is_unwritten = self
            .encryption
            .as_ref()
            .is_some_and(Encryption::wants_write);
        Ok(if is_unwritten {
            Flushed::Blocked
        } else {
            flushed
        })
    }

    fn flush_output(&mut self) -> io::Result<Flushed> {
        let Self {
            write,
            encryption,
            session,
            output,
            counters,
            stop,
            ..
        } = self;
        let mut writer = CountingWriter {
            write,
            encryption: encryption.as_mut(),
            written: 0,
        };
        // The last answer is the last word: no delivery follows it.
        let deliver = stop.is_none();
        let result = output.flush(session, &mut writer, deliver);
        if writer.written > 0 {
            counters.bytes_out.inc_by(writer.written);
            session.wrote(Instant::now());
        }
        result
    }
}

struct CountingWriter<'a, 'b> {
    write: &'a mut WriteHalf<'b>,
    encryption: Option<&'a mut Encryption>,
    written: u64,
}

impl CountingWriter<'_, '_> {
    /// Writes a part of `bytes`; none if the client takes nothing now.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.encryption {
            None => self.write.try_write(bytes),
            Some(encryption) => encryption.try_write(self.write, bytes),
        };
        match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                self.written += count as u64;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// How far a flush came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    All,
    /// There is more, and the client would take it, but others should run in between.
    Partly,
    /// The client takes nothing more now.
    Blocked,
}

/// What is on its way to the client.
#[derive(Default)]
struct Output {
    answers: Vec<u8>,
    /// Deliveries taken from the outbox; those before `next` are written.
    taken: Vec<Delivery>,
    next: usize,
    /// The rest of the delivery at `next`, if a part of it is written.
    begun: Vec<u8>,
    ends: Vec<usize>,
}

impl Output {
    fn flush<S: Session>(
        &mut self,
        session: &mut S,
        writer: &mut CountingWriter<'_, '_>,
        deliver: bool,
    ) -> io::Result<Flushed> {
        if !self.finish_begun(session, writer)? || !self.write_answers(writer)? {
            return Ok(Flushed::Blocked);
        }
        if !deliver {
            return Ok(Flushed::All);
        }
        for _ in 0..ROUNDS_MAX {
            if self.next == self.taken.len() {
                self.taken.clear();
                self.next = 0;
                session.outbox().take(&mut self.taken);
                if self.taken.is_empty() {
                    self.shrink();
                    return Ok(Flushed::All);
                }
            }
            if !self.write_deliveries(session, writer)? {
                return Ok(Flushed::Blocked);
            }
        }
        Ok(Flushed::Partly)
    }

    fn finish_begun<S: Session>(
        &mut self,
        session: &mut S,
        writer: &mut CountingWriter<'_, '_>,
    ) -> io::Result<bool> {
        if self.begun.is_empty() {
            return Ok(true);
        }
        let count = writer.write(&self.begun)?;
        self.begun.drain(..count);
        if !self.begun.is_empty() {
            return Ok(false);
        }
        session.sent(&self.taken[self.next..=self.next]);
        self.next += 1;
        Ok(true)
    }

    fn write_answers(&mut self, writer: &mut CountingWriter<'_, '_>) -> io::Result<bool> {
        if self.answers.is_empty() {
            return Ok(true);
        }
        let count = writer.write(&self.answers)?;
        self.answers.drain(..count);
        Ok(self.answers.is_empty())
    }

    /// Writes one buffer full of deliveries; says whether all of it was taken.
    fn write_deliveries<S: Session>(
        &mut self,
        session: &mut S,
        writer: &mut CountingWriter<'_, '_>,
    ) -> io::Result<bool> {
        let mut buffer = WriteBuffer::borrow();
        let bytes = buffer.as_vec();
        self.ends.clear();
        for delivery in &self.taken[self.next..] {
            session.encode(delivery, bytes);
            self.ends.push(bytes.len());
            if bytes.len() >= BUFFER_BYTES {
                break;
            }
        }
        let written = writer.write(bytes)?;
        let whole = self.ends.partition_point(|&end| end <= written);
        session.sent(&self.taken[self.next..self.next + whole]);
        self.next += whole;
        let start = whole.checked_sub(1).map_or(0, |last| self.ends[last]);
        if written > start {
            self.begun
                .extend_from_slice(&bytes[written..self.ends[whole]]);
        }
        Ok(whole == self.ends.len())
    }

    /// An idle connection keeps no memory that it needed once.
    fn shrink(&mut self) {
        if self.taken.capacity() * size_of::<Delivery>() > IDLE_BYTES_MAX {
            self.taken = Vec::new();
            self.ends = Vec::new();
        }
        if self.answers.capacity() > IDLE_BYTES_MAX {
            self.answers = Vec::new();
        }
        if self.begun.capacity() > IDLE_BYTES_MAX {
            self.begun = Vec::new();
        }
    }

    /// The subscription whose delivery is written in part.
    fn half_written(&self) -> Option<u32> {
        let delivery = self.taken.get(self.next)?;
        (!self.begun.is_empty()).then_some(delivery.subscription)
    }

    /// Takes out what is not written of one subscription.
    fn take_unsent(&mut self, token: u32) -> Vec<Entry> {
        let rest = self.taken.split_off(self.next);
        let (unsent, kept): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|d| d.subscription == token);
        self.taken.extend(kept);
        unsent.into_iter().map(|delivery| delivery.entry).collect()
    }

    fn into_unsent(mut self) -> Vec<Delivery> {
        self.taken.split_off(self.next)
    }
}

/// What came from the client and is not handled yet: the start of a command.
#[derive(Default)]
struct Input {
    kept: Vec<u8>,
    /// When the first byte of it came.
    begun: Option<Instant>,
    /// How many bytes at the start of what was read last had been there before.
    seen_bytes: usize,
    read_bytes: usize,
    /// What was kept may hold whole commands: it is handled before more is read.
    is_ahead: bool,
    /// The client sends nothing more.
    is_over: bool,
}

impl Input {
    /// Reads once. A command that began earlier stands in front of what came now, either in the
    /// buffer that is returned or, if it is a large one, in `kept`.
    async fn read(
        &mut self,
        read: &mut ReadHalf<'_>,
        write: &WriteHalf<'_>,
        mut encryption: Option<&mut Encryption>,
    ) -> io::Result<Option<ReadBuffer>> {
        let read = |context: &mut Context<'_>| {
            let read = Pin::new(&mut *read);
            self.poll_read(read, write, encryption.as_deref_mut(), context)
        };
        poll_fn(read).await
    }

    fn poll_read(
        &mut self,
        read: Pin<&mut ReadHalf<'_>>,
        write: &WriteHalf<'_>,
        encryption: Option<&mut Encryption>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<ReadBuffer>>> {
        if std::mem::take(&mut self.is_ahead) {
            self.seen_bytes = self.kept.len();
            return Poll::Ready(Ok(None));
        }
        let mut buffer = ReadBuffer::borrow();
        let fits = self.kept.len() <= BUFFER_BYTES / 2;
        let start = if fits { self.kept.len() } else { 0 };
        let mut target = ReadBuf::new(&mut buffer[start..]);
        let got = match encryption {
            None => read.poll_read(context, &mut target),
            Some(encryption) => encryption.poll_read(read, write, context, &mut target),
        };
        match got {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                let count = target.filled().len();
                self.is_over = count == 0;
                self.seen_bytes = self.kept.len();
                if fits {
                    buffer[..start].copy_from_slice(&self.kept);
                    self.read_bytes = start + count;
                    Poll::Ready(Ok(Some(buffer)))
                } else {
                    self.kept.extend_from_slice(&buffer[..count]);
                    self.read_bytes = self.kept.len();
                    Poll::Ready(Ok(None))
                }
            }
        }
    }

    /// All bytes that are not handled yet; `None` if the client closed the connection.
    fn bytes<'a>(&'a self, buffer: Option<&'a [u8]>) -> Option<&'a [u8]> {
        let bytes = match buffer {
            Some(buffer) => &buffer[..self.read_bytes],
            None => &self.kept[..],
        };
        (!self.is_over).then_some(bytes)
    }

    /// Keeps the last `left` bytes for the next time.
    fn keep(&mut self, buffer: Option<ReadBuffer>, left: usize, begun: Option<Instant>) {
        match buffer {
            Some(buffer) => {
                self.kept.clear();
                let bytes = &buffer[..self.read_bytes];
                self.kept.extend_from_slice(&bytes[bytes.len() - left..]);
            }
            None => {
                let used = self.kept.len() - left;
                self.kept.drain(..used);
            }
        }
        if self.kept.is_empty() && self.kept.capacity() > IDLE_BYTES_MAX {
            self.kept = Vec::new();
        }
        self.begun = begun;
    }
}

/// A timer that is touched only when it has to fire earlier than planned.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
}

impl Timer {
    fn arm(&mut self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if self.armed.is_some_and(|armed| armed <= deadline) {
            return;
        }
        self.armed = Some(deadline);
        let at = tokio::time::Instant::from_std(deadline);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
        }
    }

    /// Waits until the armed deadline; for ever if there is none.
    async fn elapsed(&mut self) {
        match &mut self.sleep {
            Some(sleep) if self.armed.is_some() => sleep.as_mut().await,
            _ => std::future::pending().await,
        }
        self.armed = None;
    }
}

/// Tells the kernel to acknowledge what it received at once: a client that sends a command in
/// several small writes and then waits for the answer would otherwise wait 40 ms for nothing.
fn quick_acknowledge(write: &WriteHalf<'_>) {
    let socket = socket2::SockRef::from(write.as_ref());
    // If it cannot be set, things are merely slower.
    let _ = socket.set_tcp_quickack(true);
}
