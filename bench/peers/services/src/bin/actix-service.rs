//! The services with actix-web: work is done in `web::block`, and shared state stands behind a `RwLock`.

use actix_web::error::ErrorNotFound;
use actix_web::web::{self, Data, Path, Query, ServiceConfig};
use actix_web::{App, HttpServer, Result};
use parking_lot::RwLock;
use services_peer::PLAIN;
use services_peer::kernels::Kernel;
use services_peer::options::Options;
use services_peer::state::{Cache, Wanted, Work, work};

struct Shared {
    cache: RwLock<Cache>,
    inline: bool,
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let options = Options::read();
    let shared = Data::new(Shared {
        cache: RwLock::default(),
        inline: options.inline,
    });
    let mut server = HttpServer::new(move || {
        let shared = shared.clone();
        App::new().app_data(shared).configure(routes)
    })
    .workers(options.workers);
    if let Some(blocking) = options.blocking {
        server = server.worker_max_blocking_threads(blocking);
    }
    server.bind(options.listen)?.run().await
}

fn routes(config: &mut ServiceConfig) {
    config
        .route("/plain", web::get().to(async || PLAIN))
        .route("/fib/{n}", web::get().to(fibonacci))
        .route("/cached/fib/{n}", web::get().to(cached_fibonacci))
        .route("/scimark/{kernel}", web::get().to(free))
        .route("/sf1/{kernel}", web::get().to(while_reading))
        .route("/sf1/{kernel}", web::post().to(exclusive))
        .route("/sf2/{kernel}", web::get().to(free))
        .route("/sf2/{kernel}", web::post().to(exclusive))
        .route("/then/{kernel}", web::post().to(then_store))
        .route("/stored", web::get().to(stored));
}

async fn fibonacci(shared: Data<Shared>, n: Path<u32>, wanted: Query<Wanted>) -> Result<String> {
    answer(shared, Work::Fibonacci(*n), *wanted).await
}

async fn cached_fibonacci(
    shared: Data<Shared>,
    n: Path<u32>,
    wanted: Query<Wanted>,
) -> Result<String> {
    answer(shared, Work::CachedFibonacci(*n), *wanted).await
}

async fn free(shared: Data<Shared>, kernel: Path<String>, wanted: Query<Wanted>) -> Result<String> {
    run(shared, &kernel, *wanted, Work::Free).await
}

async fn while_reading(
    shared: Data<Shared>,
    kernel: Path<String>,
    wanted: Query<Wanted>,
) -> Result<String> {
    run(shared, &kernel, *wanted, Work::Shared).await
}

async fn exclusive(
    shared: Data<Shared>,
    kernel: Path<String>,
    wanted: Query<Wanted>,
) -> Result<String> {
    run(shared, &kernel, *wanted, Work::Exclusive).await
}

async fn then_store(
    shared: Data<Shared>,
    kernel: Path<String>,
    wanted: Query<Wanted>,
) -> Result<String> {
    run(shared, &kernel, *wanted, Work::ThenStore).await
}

async fn stored(shared: Data<Shared>, wanted: Query<Wanted>) -> Result<String> {
    answer(shared, Work::Stored, *wanted).await
}

async fn run(
    shared: Data<Shared>,
    kernel: &str,
    wanted: Wanted,
    asked: fn(Kernel) -> Work,
) -> Result<String> {
    let kernel = Kernel::named(kernel).ok_or_else(|| ErrorNotFound("no such kernel"))?;
    answer(shared, asked(kernel), wanted).await
}

async fn answer(shared: Data<Shared>, asked: Work, wanted: Wanted) -> Result<String> {
    if shared.inline {
        return Ok(work(&shared.cache, asked, wanted));
    }
    Ok(web::block(move || work(&shared.cache, asked, wanted)).await?)
}
