//! A real PostgreSQL server, from Debian's `postgresql`.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crawl::store::Place;

/// A server with data of its own; dropping it ends it and removes them.
pub struct Server {
    folder: tempfile::TempDir,
    programs: PathBuf,
    /// Root cannot run it, so it becomes the user `postgres`.
    account: Option<(u32, u32)>,
    port: u16,
}

pub const PASSWORD: &str = "tell-nobody";

impl Server {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let account = is_root.then(account_of_postgres);
        std::fs::write(folder.path().join("password"), PASSWORD).unwrap();
        if let Some((user, group)) = account {
            for path in [folder.path().to_owned(), folder.path().join("password")] {
                chown(path, Some(user), Some(group)).unwrap();
            }
        }
        let port = free_port();
        let server = Self {
            folder,
            programs: programs(),
            account,
            port,
        };
        let arguments = "-D data -U hivewire -A scram-sha-256 --pwfile=password -E UTF8 -N";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        server.run("initdb", &arguments);
        let options =
            format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=");
        let arguments = ["start", "-w", "-D", "data", "-l", "log", "-o", &options];
        server.run("pg_ctl", &arguments);
        server
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path()).args(arguments);
        command.stdout(Stdio::null()).env("LC_ALL", "C");
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{program} {arguments:?}: {status}");
    }

    pub fn stop(&self) {
        self.run("pg_ctl", &["stop", "-w", "-m", "immediate", "-D", "data"]);
    }

    pub fn url(&self, password: &str) -> String {
        let port = self.port;
        format!("postgres://hivewire:{password}@127.0.0.1:{port}/postgres")
    }

    /// A place for a store of its own.
    pub async fn place(&self, database: &str) -> Place {
        let client = self.client().await;
        let sql = format!("CREATE DATABASE {database}");
        client.batch_execute(&sql).await.unwrap();
        let url = self.url(PASSWORD);
        let (server, _) = url.rsplit_once('/').unwrap();
        format!("{server}/{database}").parse().unwrap()
    }

    pub async fn client(&self) -> tokio_postgres::Client {
        let url = self.url(PASSWORD);
        let connecting = tokio_postgres::connect(&url, tokio_postgres::NoTls);
        let (client, connection) = connecting.await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.folder.path().join("data/postmaster.pid").exists() {
            self.stop();
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn account_of_postgres() -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let fields: Vec<&str> = line.expect("the user postgres").split(':').collect();
    (fields[2].parse().unwrap(), fields[3].parse().unwrap())
}

fn programs() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/postgresql").expect("postgresql is installed");
    let versions = installed.map(|version| version.unwrap().path().join("bin"));
    let usable = |programs: &PathBuf| programs.join("pg_ctl").is_file();
    versions
        .filter(usable)
        .max()
        .expect("postgresql is installed")
}
