//! A store on a PostgreSQL server.

use crawl::store::{Place, Reader, Settings, Store, StoreError};

use super::contract;
use super::server::{PASSWORD, Server};

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

#[test]
fn a_store_on_a_server_does_what_stores_do() {
    run(async {
        let server = Server::start();
        contract::holds(&server.place("contract").await).await;
        a_batch_is_whole_or_absent(&server).await;
        several_writers_begin_at_once(&server).await;
        long_urls_and_texts_are_no_problem(&server).await;
        newer_schemas_are_refused(&server).await;
        nothing_tells_the_password(server).await;
    });
}

async fn a_batch_is_whole_or_absent(server: &Server) {
    let place = server.place("batches").await;
    let mut store = Store::open(&place, Settings::default()).await.unwrap();
    let mut batch = contract::pages(0..20);
    batch[19].headers = Some("no JSON".to_owned());
    let refused = [contract::refusal("https://a.example/", "robots", 1)];
    let error = store.write(&batch, &refused).await.unwrap_err();
    assert!(error.to_string().contains("the server says"), "{error}");
    let mut reader = Reader::open(&place).await.unwrap();
    assert_eq!(reader.counts().await.unwrap(), Default::default());
    store.write(&batch[..19], &refused).await.unwrap();
    assert_eq!(reader.counts().await.unwrap().pages, 19);
}

async fn several_writers_begin_at_once(server: &Server) {
    let place = server.place("several").await;
    let mut writers = tokio::task::JoinSet::new();
    for part in 0..4 {
        let place = place.clone();
        writers.spawn(async move {
            let mut store = Store::open(&place, Settings::default()).await.unwrap();
            for round in 0..10 {
                // The same rows in another order each.
                let mut batch = contract::pages(round..round + 20);
                if part % 2 == 0 {
                    batch.reverse();
                }
                store.write(&batch, &[]).await.unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let mut reader = Reader::open(&place).await.unwrap();
    assert_eq!(reader.counts().await.unwrap().pages, 29);
}

async fn long_urls_and_texts_are_no_problem(server: &Server) {
    let place = server.place("long").await;
    let settings = Settings {
        search: true,
        ..Settings::default()
    };
    let mut store = Store::open(&place, settings).await.unwrap();
    let mut long = contract::page(1);
    let signs: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    long.url = format!("https://site1.example/{signs}");
    long.final_url = format!("{}/moved", long.url);
    long.text = Some((0..600_000).map(|number| format!("ß{number} ")).collect());
    store.write(std::slice::from_ref(&long), &[]).await.unwrap();
    let mut reader = Reader::open(&place).await.unwrap();
    assert!(reader.page(&long.url).await.unwrap().is_some());
    assert!(
        reader
            .page_ending_at(&long.final_url)
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(reader.search("ß7", 5).await.unwrap().len(), 1);
}

async fn newer_schemas_are_refused(server: &Server) {
    let place = server.place("newer").await;
    drop(Store::open(&place, Settings::default()).await.unwrap());
    let url = server.url(PASSWORD);
    let (address, _) = url.rsplit_once('/').unwrap();
    let connecting =
        tokio_postgres::connect(&format!("{address}/newer"), tokio_postgres::NoTls).await;
    let (client, connection) = connecting.unwrap();
    tokio::spawn(connection);
    let sql = "UPDATE crawl_schema SET version = 99";
    client.batch_execute(sql).await.unwrap();
    let write = Store::open(&place, Settings::default())
        .await
        .err()
        .unwrap();
    let read = Reader::open(&place).await.err().unwrap();
    for error in [write, read] {
        assert!(
            matches!(error, StoreError::Newer { found: 99, .. }),
            "{error}"
        );
    }
}

async fn nothing_tells_the_password(server: Server) {
    let wrong: Place = server.url("wrong-secret").parse().unwrap();
    let place: Place = server.url(PASSWORD).parse().unwrap();
    let refused = Reader::open(&wrong).await.err().unwrap();
    let mut store = Store::open(&place, Settings::default()).await.unwrap();
    server.stop();
    let cut = store.write(&contract::pages(0..1), &[]).await.unwrap_err();
    let away = Reader::open(&place).await.err().unwrap();
    for error in [refused, cut, away] {
        let told = format!("{error} {error:?}");
        assert!(
            !told.contains(PASSWORD) && !told.contains("wrong-secret"),
            "{told}"
        );
        assert!(told.contains("postgres://hivewire@127.0.0.1"), "{told}");
    }
}
