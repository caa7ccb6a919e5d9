//! gamq over UDP: each sender's datagrams are put together again, and answers and deliveries go
//! back to its address. No answer is larger than what it answers, so that nobody can use us to flood
//! somebody else.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Delivery, Outbox};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use wire::gamq::{Command, DatagramDecoder, encode_delivery};

use super::limits;
use super::session::{GamqSession, Subscriptions};
use crate::counters::Counters;
use crate::session::{Progress, Session, Stop};
use crate::{Bound, Context, ListenError, Opened};

/// The largest datagram that there can be.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// How many datagrams are handled before others may run.
const DATAGRAMS_AT_ONCE: usize = 512;

/// How often forgotten senders are looked for, and acknowledgements that waited for a sync sent.
const SWEEP: Duration = Duration::from_secs(1);

/// Opens the UDP socket.
pub(super) fn listen(
    context: &Context,
    opened: &mut Opened,
    address: SocketAddr,
) -> Result<(), ListenError> {
    let bytes = context.settings.gamq.datagram_buffer_bytes;
    let socket = bind(address, bytes).map_err(|source| ListenError::Bind {
        protocol: "gamq",
        transport: "udp",
        address,
        source,
    })?;
    opened.bound.push(Bound {
        protocol: "gamq",
        transport: "udp",
        address,
    });
    opened.tasks.spawn(serve(context.clone(), Arc::new(socket)));
    Ok(())
}

fn bind(address: SocketAddr, buffer_bytes: usize) -> io::Result<UdpSocket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    // The system may give less; a burst then loses more.
    let _ = socket.set_recv_buffer_size(buffer_bytes);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// One address that sends to us.
struct Sender {
    decoder: DatagramDecoder,
    session: GamqSession,
    /// Bytes of the command that is being put together.
    request_bytes: usize,
    last_seen: Instant,
    /// Sends this sender its deliveries, once it has a subscription.
    deliverer: Option<Arc<Notify>>,
}

struct Datagrams {
    context: Context,
    socket: Arc<UdpSocket>,
    senders: HashMap<SocketAddr, Sender>,
}

async fn serve(context: Context, socket: Arc<UdpSocket>) {
    let mut shutdown = context.shutdown.clone();
    let mut syncs = context.broker.journal().watch();
    let mut datagrams = Datagrams {
        context,
        socket,
        senders: HashMap::new(),
    };
    let mut sweep = tokio::time::interval(SWEEP);
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        tokio::select! {
            ready = datagrams.socket.readable() => {
                if ready.is_err() || !datagrams.receive(&mut buffer).await {
                    return;
                }
            }
            _ = syncs.changed() => datagrams.synced(*syncs.borrow_and_update()),
            _ = sweep.tick() => datagrams.forget_silent(),
            _ = shutdown.changed() => break,
        }
    }
    let addresses: Vec<_> = datagrams.senders.keys().copied().collect();
    for address in addresses {
        datagrams.forget(address);
    }
}

impl Datagrams {
    /// Handles the datagrams that are there; says whether the socket still works.
    async fn receive(&mut self, buffer: &mut [u8]) -> bool {
        let mut touched = Vec::new();
        for _ in 0..DATAGRAMS_AT_ONCE {
            match self.socket.try_recv_from(buffer) {
                Ok((count, address)) => {
                    self.context.counters.bytes_in.inc_by(count as u64);
                    self.datagram(address, &buffer[..count]).await;
                    if touched.last() != Some(&address) {
                        touched.push(address);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What one peer did, such as closing its port, is not the end for the others.
                Err(error) => tracing::debug!("a datagram could not be received: {error}"),
            }
        }
        for address in touched {
            self.flush(address).await;
        }
        true
    }

    async fn datagram(&mut self, address: SocketAddr, datagram: &[u8]) {
        let counters = self.context.counters.clone();
        if !self.context.broker.journal().is_ready() {
            // What was gathered goes first, so that this datagram need not be refused for it.
            self.flush(address).await;
        }
        let Some(sender) = self.sender(address) else {
            return;
        };
        sender.last_seen = Instant::now();
        sender.request_bytes += datagram.len();
        let Sender {
            decoder, session, ..
        } = sender;
        let mut answers = Vec::new();
        let mut result = Ok(Progress::Done);
        let fed = decoder.feed(datagram, |command| {
            // A list of commands would be larger than the request for it.
            if !matches!(command, Command::Help) && result.is_ok() {
                result = session.command(command, datagram.len(), &mut answers);
                if result == Ok(Progress::NotReady) {
                    // The disk is behind, and a datagram cannot wait: it is lost, and counted.
                    counters.messages_refused.inc();
                }
            }
        });
        if fed.is_err() {
            counters.protocol_errors.inc();
        }
        if session.acknowledges() || result == Ok(Progress::NotReady) {
            // Whoever waits for an answer sends nothing more until it comes.
            result = self.publish(address, &mut answers).await;
        }
        self.answer(address, &answers).await;
        self.deliver(address);
        if result.is_err() {
            self.forget(address);
        }
    }

    async fn flush(&mut self, address: SocketAddr) {
        let mut answers = Vec::new();
        if self.publish(address, &mut answers).await.is_err() {
            self.forget(address);
        }
    }

    /// Publishes what a sender's session gathered, waiting for the journal if it must.
    async fn publish(
        &mut self,
        address: SocketAddr,
        answers: &mut Vec<u8>,
    ) -> Result<Progress, Stop> {
        loop {
            let Some(sender) = self.senders.get_mut(&address) else {
                return Ok(Progress::Done);
            };
            match sender.session.flush(answers)? {
                Progress::Done | Progress::AnswersFirst => return Ok(Progress::Done),
                Progress::NotReady => self.context.broker.ready().await,
            }
        }
    }

    fn sender(&mut self, address: SocketAddr) -> Option<&mut Sender> {
        let settings = &self.context.settings.gamq;
        if !self.senders.contains_key(&address) {
            if self.senders.len() >= settings.datagram_senders_max && !self.make_room() {
                self.context.counters.connections_refused.inc();
                return None;
            }
            let sender = Sender {
                decoder: DatagramDecoder::new(limits(&self.context.settings.gamq)),
                session: GamqSession::new(&self.context),
                request_bytes: 0,
                last_seen: Instant::now(),
                deliverer: None,
            };
            self.senders.insert(address, sender);
        }
        self.senders.get_mut(&address)
    }

    /// Forgets a sender that leaves nothing behind.
    fn make_room(&mut self) -> bool {
        let idle = self
            .senders
            .iter()
            .filter(|(_, s)| s.deliverer.is_none() && s.decoder.is_idle())
            .min_by_key(|(_, sender)| sender.last_seen)
            .map(|(address, _)| *address);
        idle.inspect(|address| self.forget(*address)).is_some()
    }

    /// Sends answers, unless they are larger than what they answer.
    async fn answer(&mut self, address: SocketAddr, answers: &[u8]) {
        let Some(sender) = self.senders.get_mut(&address) else {
            return;
        };
        let request_bytes = sender.request_bytes;
        if sender.decoder.is_idle() {
            sender.request_bytes = 0;
        }
        if !answers.is_empty() && answers.len() <= request_bytes {
            self.context.counters.bytes_out.inc_by(answers.len() as u64);
            if let Err(error) = self.socket.send_to(answers, address).await {
                tracing::debug!("a datagram could not be sent: {error}");
            }
        }
    }

    fn synced(&mut self, durable: broker::Durable) {
        for (address, sender) in &mut self.senders {
            if sender.session.awaits_sync() {
                let mut answers = Vec::new();
                let _ = sender.session.synced(durable, &mut answers);
                // An acknowledgement is never larger than a publish.
                let _ = self.socket.try_send_to(&answers, *address);
            }
        }
    }

    /// Starts to send deliveries to a sender that has subscribed.
    fn deliver(&mut self, address: SocketAddr) {
        let Some(sender) = self.senders.get_mut(&address) else {
            return;
        };
        let subscriptions = sender.session.subscriptions();
        if sender.deliverer.is_none() && !subscriptions.is_empty() {
            let stop = Arc::new(Notify::new());
            let deliverer = Deliverer {
                socket: self.socket.clone(),
                address,
                outbox: sender.session.outbox().clone(),
                subscriptions: subscriptions.clone(),
                counters: self.context.counters.clone(),
                stop: stop.clone(),
            };
            tokio::spawn(deliverer.run());
            sender.deliverer = Some(stop);
        }
    }

    fn forget_silent(&mut self) {
        let settings = &self.context.settings.gamq;
        let idle_max = Duration::from_secs(settings.datagram_idle_seconds_max);
        let body_max = Duration::from_secs(settings.body_seconds_max);
        let now = Instant::now();
        let silent: Vec<SocketAddr> = self
            .senders
            .iter()
            .filter(|(_, sender)| {
                let silent = now.duration_since(sender.last_seen);
                let half_a_command = !sender.decoder.is_idle();
                silent > idle_max || (half_a_command && silent > body_max)
            })
            .map(|(address, _)| *address)
            .collect();
        for address in silent {
            self.forget(address);
        }
    }

    fn forget(&mut self, address: SocketAddr) {
        if let Some(sender) = self.senders.remove(&address) {
            match sender.deliverer {
                Some(stop) => stop.notify_one(),
                None => sender.session.close(Vec::new()),
            }
        }
    }
}

/// Sends one subscriber its deliveries, a datagram each, until it is told to stop.
struct Deliverer {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    outbox: Arc<Outbox>,
    subscriptions: Subscriptions,
    counters: Counters,
    stop: Arc<Notify>,
}

impl Deliverer {
    async fn run(self) {
        let mut deliveries: Vec<Delivery> = Vec::new();
        let mut bytes = Vec::new();
        loop {
            tokio::select! {
                () = self.outbox.filled() => {}
                () = self.stop.notified() => break,
            }
            self.outbox.take(&mut deliveries);
            for delivery in &deliveries {
                bytes.clear();
                encode_delivery(&mut bytes, &delivery.entry.message.body);
                // Datagrams may be lost: this is at most once, and what we lose is counted.
                match self.socket.send_to(&bytes, self.address).await {
                    Ok(count) => self.counters.bytes_out.inc_by(count as u64),
                    Err(_) => self.counters.datagrams_lost.inc(),
                };
            }
            self.counters.messages_out.inc_by(deliveries.len() as u64);
            self.subscriptions.sent(&deliveries);
            deliveries.clear();
        }
        self.subscriptions.close(Vec::new());
    }
}
