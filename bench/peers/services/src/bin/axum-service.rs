//! The services with axum: work is done in `spawn_blocking`, and shared state stands behind a `RwLock`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use parking_lot::RwLock;
use services_peer::PLAIN;
use services_peer::kernels::Kernel;
use services_peer::options::Options;
use services_peer::state::{Cache, Wanted, Work, work};

#[derive(Clone)]
struct Shared {
    cache: Arc<RwLock<Cache>>,
    inline: bool,
}

type Answer = Result<String, StatusCode>;

fn main() -> std::io::Result<()> {
    let options = Options::read();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(options.workers).enable_all();
    if let Some(blocking) = options.blocking {
        runtime.max_blocking_threads(blocking);
    }
    runtime.build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(options.listen).await?;
        axum::serve(listener, router(options.inline)).await
    })
}

fn router(inline: bool) -> Router {
    let shared = Shared {
        cache: Arc::default(),
        inline,
    };
    Router::new()
        .route("/plain", get(async || PLAIN))
        .route("/fib/{n}", get(fibonacci))
        .route("/cached/fib/{n}", get(cached_fibonacci))
        .route("/scimark/{kernel}", get(free))
        .route("/sf1/{kernel}", get(while_reading).post(exclusive))
        .route("/sf2/{kernel}", get(free).post(exclusive))
        .route("/then/{kernel}", post(then_store))
        .route("/stored", get(stored))
        .with_state(shared)
}

async fn fibonacci(
    State(shared): State<Shared>,
    Path(n): Path<u32>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    answer(shared, Work::Fibonacci(n), wanted).await
}

async fn cached_fibonacci(
    State(shared): State<Shared>,
    Path(n): Path<u32>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    answer(shared, Work::CachedFibonacci(n), wanted).await
}

async fn free(shared: State<Shared>, kernel: Path<String>, wanted: Query<Wanted>) -> Answer {
    run(shared, kernel, wanted, Work::Free).await
}

async fn while_reading(
    shared: State<Shared>,
    kernel: Path<String>,
    wanted: Query<Wanted>,
) -> Answer {
    run(shared, kernel, wanted, Work::Shared).await
}

async fn exclusive(shared: State<Shared>, kernel: Path<String>, wanted: Query<Wanted>) -> Answer {
    run(shared, kernel, wanted, Work::Exclusive).await
}

async fn then_store(shared: State<Shared>, kernel: Path<String>, wanted: Query<Wanted>) -> Answer {
    run(shared, kernel, wanted, Work::ThenStore).await
}

async fn stored(State(shared): State<Shared>, Query(wanted): Query<Wanted>) -> Answer {
    answer(shared, Work::Stored, wanted).await
}

async fn run(
    State(shared): State<Shared>,
    Path(kernel): Path<String>,
    Query(wanted): Query<Wanted>,
    asked: fn(Kernel) -> Work,
) -> Answer {
    let kernel = Kernel::named(&kernel).ok_or(StatusCode::NOT_FOUND)?;
    answer(shared, asked(kernel), wanted).await
}

async fn answer(shared: Shared, asked: Work, wanted: Wanted) -> Answer {
    if shared.inline {
        return Ok(work(&shared.cache, asked, wanted));
    }
    tokio::task::spawn_blocking(move || work(&shared.cache, asked, wanted))
        .await
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
