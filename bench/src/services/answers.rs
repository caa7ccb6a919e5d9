//! Whether a service gives the answers that all of them should give.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::answer;
use super::kernels::{Kernel, digits};
use super::load::Request;

const PATIENCE: Duration = Duration::from_secs(10);
const SEED: u32 = 4_711;

/// Asks every route of a service once or twice, and gives a sentence on the first answer that is wrong.
pub fn check(address: SocketAddr) -> Result<(), String> {
    let before = stored(address)?;
    let requests = requests();
    for request in &requests {
        let given = ask(address, &request.bytes)?;
        if given != request.expected {
            let line = String::from_utf8_lossy(&request.bytes);
            let line = line.lines().next().unwrap_or_default().to_owned();
            return Err(format!(
                "{line} gives {given:?}, not {:?}",
                request.expected
            ));
        }
    }
    // Every kernel is stored three times, a cached number once. Processes that do not share their state count fewer.
    let stored = stored(address)?.saturating_sub(before);
    let most = 3 * Kernel::ALL.len() as u64 + 1;
    if stored > most {
        return Err(format!("{stored} results were stored instead of {most}"));
    }
    Ok(())
}

/// How often something was stored so far.
pub fn stored(address: SocketAddr) -> Result<u64, String> {
    let text = ask(address, &Request::new("GET", "/stored", "", 0).bytes)?;
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn requests() -> Vec<Request> {
    let mut requests = vec![
        Request::new("GET", "/plain", "Hello, World!", 0),
        Request::new("GET", "/fib/20", "6765", 0),
        Request::new("GET", "/fib/20?rounds=3", "6765", 0),
        Request::new("GET", "/cached/fib/21?rounds=2&seed=7", "10946", 0),
        Request::new("GET", "/cached/fib/21?rounds=2&seed=7", "10946", 0),
    ];
    for kernel in Kernel::ALL {
        let right = digits(kernel.run(SEED));
        for (method, route) in [
            ("GET", "scimark"),
            ("GET", "sf1"),
            ("POST", "sf1"),
            ("GET", "sf1"),
            ("GET", "sf2"),
            ("POST", "sf2"),
            ("POST", "then"),
        ] {
            let path = format!("/{route}/{}?seed={SEED}", kernel.name());
            requests.push(Request::new(method, &path, right.clone(), 0));
        }
    }
    requests
}

/// Asks on a connection of its own.
fn ask(address: SocketAddr, request: &[u8]) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(told)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
    stream.write_all(request).map_err(told)?;
    let (mut received, mut bytes) = (Vec::new(), [0; 4_096]);
    loop {
        let count = stream.read(&mut bytes).map_err(told)?;
        received.extend_from_slice(&bytes[..count]);
        let answer = answer::read(&received).map_err(|error| error.to_string())?;
        match answer {
            Some(answer) if answer.status == 200 => {
                return Ok(String::from_utf8_lossy(answer.body).into_owned());
            }
            Some(answer) => return Err(format!("status {}", answer.status)),
            None if count == 0 => return Err("the connection ended".to_owned()),
            None => {}
        }
    }
}
