//! A network that misbehaves: a TCP proxy with delay, pauses and cuts.
//!
//! [`Proxy`] listens on a loopback port and passes everything on to one target. While it runs, a
//! test can delay every byte, hold all traffic, reset connections, or swallow their bytes while
//! both ends believe they are connected.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::SockRef;

/// How often the threads look whether they should stop.
const TICK: Duration = Duration::from_millis(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Chunks on their way in one direction; when they are this many, reading stops.
const CHUNKS_UNDER_WAY_MAX: usize = 256;
const CHUNK_BYTES: usize = 16 * 1024;

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both ends see the connection reset at once.
    Reset,
    /// Nobody is told: bytes vanish from now on, as behind a dead router.
    Silent,
}

#[derive(Clone, Copy)]
struct Settings {
    delay: Duration,
    paused: bool,
    refuses: bool,
    stopped: bool,
    /// Connections that began before this cut are affected by it.
    cuts: u64,
    cut: Cut,
}

/// A running proxy. Dropping it closes everything.
pub struct Proxy {
    address: SocketAddr,
    settings: Arc<Mutex<Settings>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of `target`.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let settings = Arc::new(Mutex::new(Settings {
            delay: Duration::ZERO,
            paused: false,
            refuses: false,
            stopped: false,
            cuts: 0,
            cut: Cut::Reset,
        }));
        let shared = settings.clone();
        let acceptor = std::thread::spawn(move || accept_all(&listener, target, &shared));
        Ok(Self {
            address,
            settings,
            acceptor: Some(acceptor),
        })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays every byte by this long in each direction, without limiting the rate.
    pub fn set_delay(&self, delay: Duration) {
        self.settings.lock().delay = delay;
    }

    /// Holds all bytes back, or lets them go on.
    pub fn pause(&self, paused: bool) {
        self.settings.lock().paused = paused;
    }

    /// Resets new connections at once, or takes them again.
    pub fn refuse(&self, refuses: bool) {
        self.settings.lock().refuses = refuses;
    }

    /// Cuts every connection that is open now; new ones work.
    pub fn cut(&self, cut: Cut) {
        let mut settings = self.settings.lock();
        settings.cut = cut;
        settings.cuts += 1;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.settings.lock().stopped = true;
        if let Some(acceptor) = self.acceptor.take() {
            // A panic there has been reported already.
            let _ = acceptor.join();
        }
    }
}

fn accept_all(listener: &TcpListener, target: SocketAddr, settings: &Arc<Mutex<Settings>>) {
    while !settings.lock().stopped {
        let Ok((client, _)) = listener.accept() else {
            std::thread::sleep(TICK);
            continue;
        };
        if settings.lock().refuses {
            reset(&client);
            continue;
        }
        if connect_through(&client, target, settings).is_err() {
            reset(&client);
        }
    }
}

fn connect_through(
    client: &TcpStream,
    target: SocketAddr,
    settings: &Arc<Mutex<Settings>>,
) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&target, CONNECT_TIMEOUT)?;
    for stream in [client, &server] {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(TICK))?;
    }
    let born = settings.lock().cuts;
    for (from, to) in [(client, &server), (&server, client)] {
        let link = Link {
            from: from.try_clone()?,
            to: to.try_clone()?,
            settings: settings.clone(),
            born,
        };
        link.run()?;
    }
    Ok(())
}

/// Makes the last close of this socket a reset. No shutdown here: it would say a polite good-bye.
fn reset(stream: &TcpStream) {
    // The peer may have gone already, which is as good.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// One direction of one connection.
struct Link {
    from: TcpStream,
    to: TcpStream,
    settings: Arc<Mutex<Settings>>,
    born: u64,
}

type Chunk = (Instant, Vec<u8>);

impl Link {
    fn run(self) -> io::Result<()> {
        let (sender, receiver) = sync_channel(CHUNKS_UNDER_WAY_MAX);
        let writer = Link {
            from: self.from.try_clone()?,
            to: self.to.try_clone()?,
            settings: self.settings.clone(),
            born: self.born,
        };
        std::thread::spawn(move || self.read_all(&sender));
        std::thread::spawn(move || writer.write_all(&receiver));
        Ok(())
    }

    /// What happened to this connection, if anything did.
    fn fate(&self) -> Option<Cut> {
        let settings = self.settings.lock();
        if settings.stopped {
            return Some(Cut::Reset);
        }
        (settings.cuts > self.born).then_some(settings.cut)
    }

    fn read_all(mut self, sender: &SyncSender<Chunk>) {
        let mut buffer = vec![0; CHUNK_BYTES];
        while self.fate() != Some(Cut::Reset) {
            match self.from.read(&mut buffer) {
                Ok(0) => return,
                // Reading on keeps the sender believing that somebody is there.
                Ok(_) if self.fate() == Some(Cut::Silent) => {}
                Ok(length) => {
                    let due = Instant::now() + self.settings.lock().delay;
                    if !self.pass_on(sender, (due, buffer[..length].to_vec())) {
                        return;
                    }
                }
                Err(error) if crate::gamq_client::is_timeout(&error) => {}
                Err(_) => return,
            }
        }
        reset(&self.from);
    }

    fn pass_on(&self, sender: &SyncSender<Chunk>, mut chunk: Chunk) -> bool {
        loop {
            match sender.try_send(chunk) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(back)) => chunk = back,
            }
            if self.fate() == Some(Cut::Reset) {
                return false;
            }
            std::thread::sleep(TICK);
        }
    }

    fn write_all(mut self, receiver: &Receiver<Chunk>) {
        while self.fate() != Some(Cut::Reset) {
            match receiver.recv_timeout(TICK) {
                Ok(chunk) => {
                    if !self.write_when_due(chunk) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // The other end closed in good order: tell this one once all is passed on.
                    let _ = self.to.shutdown(Shutdown::Write);
                    return;
                }
            }
        }
        reset(&self.to);
    }

    fn write_when_due(&mut self, (due, bytes): Chunk) -> bool {
        loop {
            match self.fate() {
                Some(Cut::Reset) => return false,
                Some(Cut::Silent) => return true,
                None => {}
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() && !self.settings.lock().paused {
                return self.write_bytes(&bytes);
            }
            std::thread::sleep(left.clamp(Duration::from_micros(100), TICK));
        }
    }

    /// Writes as fast as the other end reads, looking up now and then whether it is cut.
    fn write_bytes(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.to.write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if crate::gamq_client::is_timeout(&error) => match self.fate() {
                    Some(Cut::Reset) => return false,
                    Some(Cut::Silent) => return true,
                    None => {}
                },
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends everything back, one thread per connection, until its listener's test ends.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut reader = stream.try_clone().unwrap();
                    let mut writer = stream;
                    let _ = io::copy(&mut reader, &mut writer);
                });
            }
        });
        address
    }

    fn client(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        let timeout = Some(Duration::from_secs(2));
        stream.set_read_timeout(timeout).unwrap();
        stream
    }

    fn round_trip(stream: &mut TcpStream) -> io::Result<Duration> {
        let start = Instant::now();
        stream.write_all(b"ping")?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer)?;
        assert_eq!(&answer, b"ping");
        Ok(start.elapsed())
    }

    #[test]
    fn delay_holds_in_both_directions_and_can_be_taken_back() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut stream = client(&proxy);
        proxy.set_delay(Duration::from_millis(50));
        assert!(round_trip(&mut stream).unwrap() >= Duration::from_millis(100));
        proxy.set_delay(Duration::ZERO);
        let fastest = (0..5).map(|_| round_trip(&mut stream).unwrap()).min();
        assert!(fastest < Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_pause_holds_bytes_and_loses_none() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut stream = client(&proxy);
        round_trip(&mut stream).unwrap();
        proxy.pause(true);
        let short = Some(Duration::from_millis(60));
        stream.set_read_timeout(short).unwrap();
        assert!(round_trip(&mut stream).is_err());
        proxy.pause(false);
        let long = Some(Duration::from_secs(2));
        stream.set_read_timeout(long).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
    }

    #[test]
    fn a_reset_is_seen_at_once_and_new_connections_work() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut stream = client(&proxy);
        round_trip(&mut stream).unwrap();
        proxy.cut(Cut::Reset);
        let error = stream.read(&mut [0; 1]);
        assert!(
            matches!(&error, Ok(0)) || error.is_err_and(|e| !crate::gamq_client::is_timeout(&e))
        );
        round_trip(&mut client(&proxy)).unwrap();
        proxy.refuse(true);
        assert!(round_trip(&mut client(&proxy)).is_err());
    }

    #[test]
    fn a_silent_cut_swallows_bytes_without_closing() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut stream = client(&proxy);
        round_trip(&mut stream).unwrap();
        proxy.cut(Cut::Silent);
        let short = Some(Duration::from_millis(60));
        stream.set_read_timeout(short).unwrap();
        let error = round_trip(&mut stream).unwrap_err();
        assert!(crate::gamq_client::is_timeout(&error));
        round_trip(&mut client(&proxy)).unwrap();
    }
}
