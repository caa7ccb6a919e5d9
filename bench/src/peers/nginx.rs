//! nginx, from Debian's `nginx-light`, as the site that crawlers crawl.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::process::Process;
use super::{PeerError, Result};

const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// More than nginx holds back of its log.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);
/// Comes with the package; without it there is nothing that answers late.
const ECHO_MODULE: &str = "/usr/lib/nginx/modules/ngx_http_echo_module.so";

/// A web server of its own with the files of one folder, the same on all of its hosts.
#[derive(Debug)]
pub struct Nginx {
    // Declared before the directory: fields drop in order, and the process must end first.
    process: Process,
    directory: TempDir,
    hosts: Vec<SocketAddr>,
}

impl Nginx {
    /// Serves a folder on so many hosts, which are addresses from 127.0.1.1 on, and answers after this time.
    pub fn start(folder: &Path, hosts: u8, delay: Duration) -> Result<Self> {
        super::with_attempts(|| Self::start_once(folder, hosts, delay))
    }

    fn start_once(folder: &Path, hosts: u8, delay: Duration) -> Result<Self> {
        let program = super::find_program("nginx")?;
        let directory = super::data_directory("nginx")?;
        let [free] = super::free_addresses()?;
        let hosts: Vec<SocketAddr> = (1..=hosts)
            .map(|last| (Ipv4Addr::new(127, 0, 1, last), free.port()).into())
            .collect();
        let settings = directory.path().join("nginx.conf");
        super::write_file(&settings, &configuration(folder, &hosts, delay))?;
        let mut command = Command::new(program);
        command
            .arg("-p")
            .arg(directory.path())
            .arg("-c")
            .arg(&settings)
            .current_dir(directory.path());
        let output = directory.path().join("output");
        let mut process = Process::spawn("nginx", command, &output, Some(directory.path()))?;
        super::wait_until_ready(&mut process, READY_TIMEOUT, || {
            super::connect(hosts[0], Duration::from_secs(1)).is_ok()
        })?;
        Ok(Self {
            process,
            directory,
            hosts,
        })
    }

    /// Its hosts, each with the port.
    pub fn hosts(&self) -> &[SocketAddr] {
        &self.hosts
    }

    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Forgets who asked for what.
    pub fn forget(&self) -> Result<()> {
        self.wait_for_log()?;
        // It appends, so what it writes next stands at the begin.
        super::write_file(&self.log_file(), "")
    }

    /// How often each page, as `host:port/path`, was sent, and how often something else was answered.
    pub fn sent(&self) -> Result<Sent> {
        self.wait_for_log()?;
        Ok(Sent::read(&self.log()?))
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("requests")
    }

    fn log(&self) -> Result<String> {
        std::fs::read_to_string(self.log_file())
            .map_err(|error| PeerError::system("read the log of nginx", error))
    }

    /// Waits until everything is written: a request made here is written after all others.
    fn wait_for_log(&self) -> Result<()> {
        let number = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let path = format!("/ping-{}", number.unwrap_or_default().as_nanos());
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.hosts[0]);
        super::exchange(self.hosts[0], request.as_bytes(), 9)
            .map_err(|error| PeerError::system("ask nginx", error))?;
        let deadline = Instant::now() + LOG_TIMEOUT;
        while !self.log()?.contains(&path) {
            if Instant::now() > deadline {
                return Err(self.process.not_ready(LOG_TIMEOUT));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// What a server sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// How often each page was.
    pub pages: BTreeMap<String, u32>,
    /// How many other answers there were.
    pub others: u32,
}

impl Sent {
    fn read(log: &str) -> Self {
        let mut sent = Self::default();
        for line in log.lines().filter(|line| !line.contains("/ping-")) {
            match line.split_once(' ') {
                Some((page, "200")) if !page.ends_with("/robots.txt") => {
                    *sent.pages.entry(page.to_owned()).or_default() += 1;
                }
                _ => sent.others += 1,
            }
        }
        sent
    }
}

fn configuration(folder: &Path, hosts: &[SocketAddr], delay: Duration) -> String {
    let listen: String = hosts
        .iter()
        .map(|host| format!("        listen {host};\n"))
        .collect();
    let (modules, late) = match delay.is_zero() {
        true => (String::new(), String::new()),
        false => (
            format!("load_module {ECHO_MODULE};\n"),
            format!(
                "        location /now/ {{ internal; alias {}/; index index.html; }}\n        location / {{ echo_sleep {}; echo_exec /now$uri; }}\n",
                folder.display(),
                delay.as_secs_f64()
            ),
        ),
    };
    format!(
        "{modules}daemon off;\n\
         # One process, so that nothing is left when it is ended.\n\
         master_process off;\n\
         user root root;\n\
         pid nginx.pid;\n\
         error_log stderr error;\n\
         worker_rlimit_nofile 65536;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n\
         \x20   types {{ text/html html; text/plain txt; text/css css; }}\n\
         \x20   log_format page '$http_host$request_uri $status';\n\
         \x20   access_log requests page buffer=64k flush=200ms;\n\
         \x20   keepalive_requests 1000000000;\n\
         \x20   sendfile on;\n\
         \x20   tcp_nopush on;\n\
         \x20   open_file_cache max=100000 inactive=1h;\n\
         \x20   open_file_cache_valid 1h;\n\
         \x20   server {{\n\
         {listen}\
         \x20       root {};\n\
         \x20       index index.html;\n\
         {late}\
         \x20   }}\n\
         }}\n",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_apart_from_other_answers() {
        let log = "a:1/ 200\na:1/robots.txt 200\na:1/x 404\na:1/ 200\na:1/ping-7 404\n";
        let sent = Sent::read(log);
        assert_eq!(sent.pages, BTreeMap::from([("a:1/".to_owned(), 2)]));
        assert_eq!(sent.others, 2);
    }
}
