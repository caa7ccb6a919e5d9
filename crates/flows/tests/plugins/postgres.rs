//! `to-postgres` beside a real PostgreSQL, from Debian's `postgresql`.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flows::plugins::find;
use kernel::worker::Incoming;
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use super::rig::{Rig, built, outside, run};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with data of its own; dropping it ends it and removes them.
struct Server {
    folder: PathBuf,
    programs: PathBuf,
    /// Root cannot run it, so it becomes the user `postgres`.
    account: Option<(u32, u32)>,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let folder = format!("hivewire-flows-postgres-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let account = is_root.then(account_of_postgres);
        if let Some((user, group)) = account {
            chown(&folder, Some(user), Some(group)).unwrap();
        }
        let port = free_port();
        let server = Self {
            folder,
            programs: programs(),
            account,
            port,
        };
        server.run(
            "initdb",
            &[
                "-D", "data", "-U", "hivewire", "-A", "trust", "-E", "UTF8", "-N",
            ],
        );
        let options =
            format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=");
        server.run(
            "pg_ctl",
            &["start", "-w", "-D", "data", "-l", "log", "-o", &options],
        );
        server
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).args(arguments);
        command.stdout(Stdio::null()).env("LC_ALL", "C");
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{program} {arguments:?}: {status}");
    }

    fn stop(&self) {
        self.run("pg_ctl", &["stop", "-w", "-m", "immediate", "-D", "data"]);
    }

    fn url(&self) -> String {
        format!("postgres://hivewire@127.0.0.1:{}/postgres", self.port)
    }

    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    fn parameters(&self, table: &str, key: &[&str]) -> Value {
        json!({
            "url": self.url(), "table": table, "key": key, "timeout": "20s",
            "columns": { "id": "event.id", "total": "event.total", "who": "event.who" },
        })
    }

    async fn worker(&self, table: &str, key: &[&str]) -> Rig {
        built("to-postgres", &self.parameters(table, key).to_string()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.folder.join("data/postmaster.pid").exists() {
            self.stop();
        }
        // What cannot be removed is in the folder for such things.
        let _ = std::fs::remove_dir_all(&self.folder);
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
    let usable = |programs: &PathBuf| Path::new(programs).join("pg_ctl").is_file();
    versions
        .filter(usable)
        .max()
        .expect("postgresql is installed")
}

fn orders(numbers: std::ops::Range<u64>) -> Vec<Incoming> {
    let order = |id| outside(&json!({ "id": id, "total": id as f64 / 2.0, "who": ["ada", id] }));
    numbers.map(order).collect()
}

async fn count(client: &Client, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

#[test]
fn rows_come_to_a_real_server() {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let columns = "total numeric NOT NULL, who jsonb, made timestamptz DEFAULT now()";
        for (table, id) in [("orders", "bigint PRIMARY KEY"), ("log", "bigint")] {
            let sql = format!("CREATE TABLE {table} (id {id}, {columns})");
            client.batch_execute(&sql).await.unwrap();
        }
        repeated_events_leave_one_row(&server, &client).await;
        a_batch_is_written_whole_or_not_at_all(&server, &client).await;
        a_lost_connection_is_made_again(&server, &client).await;
        while_the_server_is_away_turns_fail(server).await;
    });
}

async fn repeated_events_leave_one_row(server: &Server, client: &Client) {
    let mut keyed = server.worker("orders", &["id"]).await;
    // The control: without a key what is written twice is there twice.
    let mut plain = server.worker("log", &[]).await;
    for worker in [&mut keyed, &mut plain] {
        worker.undone(&orders(0..40)).await;
        worker.crash().await;
        worker.handle(&orders(0..40)).await.unwrap();
    }
    assert_eq!(
        (count(client, "orders").await, count(client, "log").await),
        (40, 80)
    );
    let changed = [
        outside(&json!({ "id": 7, "total": 1, "who": null })),
        outside(&json!({ "id": 7, "total": 99.25, "who": "eve" })),
    ];
    keyed.handle(&changed).await.unwrap();
    let sql = "SELECT total::text, who::text FROM orders WHERE id = 7 AND made IS NOT NULL";
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1)),
        ("99.25", "\"eve\"")
    );
    assert_eq!(count(client, "orders").await, 40);
}

async fn a_batch_is_written_whole_or_not_at_all(server: &Server, client: &Client) {
    let mut worker = server.worker("orders", &["id"]).await;
    let mut batch = orders(100..110);
    batch.push(outside(
        &json!({ "id": 110, "total": "no number", "who": "bob" }),
    ));
    let failure = worker.handle(&batch).await.unwrap_err();
    assert!(
        failure.reason.contains("no number") && failure.reason.contains("the server says"),
        "{failure}"
    );
    assert_eq!(count(client, "orders").await, 40);
    worker.handle(&batch[..10]).await.unwrap();
    assert_eq!(count(client, "orders").await, 50);
}

async fn a_lost_connection_is_made_again(server: &Server, client: &Client) {
    let mut worker = server.worker("orders", &["id"]).await;
    worker.handle(&orders(200..210)).await.unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'hivewire'";
    let ended: i64 = client.query_one(end, &[]).await.unwrap().get(0);
    assert!(ended > 0);
    let deadline = Instant::now() + PATIENCE;
    while worker.handle(&orders(200..220)).await.is_err() {
        assert!(Instant::now() < deadline, "it never connects again");
    }
    assert_eq!(count(client, "orders").await, 70);
}

async fn while_the_server_is_away_turns_fail(server: Server) {
    let mut worker = server.worker("orders", &["id"]).await;
    worker.handle(&orders(0..1)).await.unwrap();
    server.stop();
    let failure = worker.handle(&orders(1..2)).await.unwrap_err();
    assert!(
        failure.reason.contains("the table orders in PostgreSQL"),
        "{failure}"
    );
}

#[test]
fn an_address_that_is_wrong_is_told_without_its_password() {
    let check = |url: &str| {
        let parameters = json!({ "url": url, "table": "t", "columns": { "a": "event.a" } });
        let plugin = find("to-postgres").unwrap();
        plugin.check(parameters.to_string().as_bytes())
    };
    assert!(check("postgres://me:secret@db.example.com:5433/shop").is_ok());
    for url in [
        "postgres://me:secret@host:port/shop",
        "postgres:///shop?password=secret",
    ] {
        let error = check(url).unwrap_err();
        assert_eq!(error.field(), "url");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
