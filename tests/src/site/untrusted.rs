//! A server whose certificate nobody vouches for.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rcgen::CertifiedKey;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, Stream};

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Accepts connections, shows its certificate, and counts how often, until it is dropped.
pub struct Untrusted {
    address: SocketAddr,
    shown: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Untrusted {
    /// Begins to listen.
    pub fn start() -> anyhow::Result<Self> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])?;
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())?;
        let config = Arc::new(config);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (shown, stop) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let thread = std::thread::spawn({
            let (shown, stop) = (shown.clone(), Arc::clone(&stop));
            move || accept(&listener, &config, &shown, &stop)
        });
        Ok(Self {
            address,
            shown,
            stop,
            thread: Some(thread),
        })
    }

    /// Its host, with the port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("https://{}/", self.address)
    }

    /// How often it has shown its certificate.
    pub fn shown(&self) -> usize {
        self.shown.load(Ordering::SeqCst)
    }
}

impl Drop for Untrusted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the one who waits for connections.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    config: &Arc<ServerConfig>,
    shown: &AtomicUsize,
    stop: &AtomicBool,
) {
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        shown.fetch_add(1, Ordering::SeqCst);
        if let Ok(stream) = stream {
            // A client that looks at the certificate goes away, which is an error here.
            let _ = show(stream, config);
        }
    }
}

fn show(mut stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
    let mut request = [0; 4_096];
    Stream::new(&mut connection, &mut stream)
        .read(&mut request)
        .map(drop)
}
