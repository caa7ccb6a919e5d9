//! A small REST service: a shelf of books.
//!
//! ```sh
//! cargo run --example rest
//! curl localhost:8080/books --json '{"title": "Middlemarch", "copies": 2}'
//! curl localhost:8080/books/1
//! curl -X POST localhost:8080/books/1/loan
//! curl localhost:8080/books/one    # says what is wrong
//! ```

#![allow(elided_lifetimes_in_paths)]

use std::collections::BTreeMap;
use std::error::Error;

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use web::{
    Carried, Json, OnPanic, Path, Problem, Query, Read, Service, StatusCode, Tick, Write, next_tick,
};

#[derive(Clone, Serialize, Deserialize)]
struct Book {
    title: String,
    copies: u32,
}

#[derive(Clone, Default)]
struct Shelf {
    books: BTreeMap<u64, Book>,
    last: u64,
}

/// What was lent so far. It is a state of its own, so that looking at it keeps nobody from the books.
#[derive(Default, Serialize)]
struct Loans {
    titles: Vec<String>,
}

const BOOKS_MAX: usize = 10_000;
const LOANS_MAX: usize = 1_000;

#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    title: String,
}

fn not_found() -> Problem {
    Problem::new(404, "There is no such book")
}

fn list(shelf: Read<Shelf>, Query(wanted): Query<Wanted>) -> Json<BTreeMap<u64, Book>> {
    let books = shelf.books.iter();
    let fits = books.filter(|(_, book)| book.title.contains(&wanted.title));
    Json(fits.map(|(id, book)| (*id, book.clone())).collect())
}

fn show(shelf: Read<Shelf>, Path(id): Path<u64>) -> Result<Json<Book>, Problem> {
    shelf
        .books
        .get(&id)
        .cloned()
        .map(Json)
        .ok_or_else(not_found)
}

fn add(
    mut shelf: Write<Shelf>,
    Json(book): Json<Book>,
) -> Result<(StatusCode, Json<u64>), Problem> {
    if shelf.books.len() >= BOOKS_MAX {
        return Err(Problem::new(507, "The shelf is full"));
    }
    shelf.last += 1;
    let id = shelf.last;
    shelf.books.insert(id, book);
    Ok((StatusCode::CREATED, Json(id)))
}

fn remove(mut shelf: Write<Shelf>, Path(id): Path<u64>) -> Result<StatusCode, Problem> {
    shelf
        .books
        .remove(&id)
        .map(|_| StatusCode::NO_CONTENT)
        .ok_or_else(not_found)
}

/// Takes a copy from the shelf …
fn lend(mut shelf: Write<Shelf>, Path(id): Path<u64>) -> Tick<String> {
    let Some(book) = shelf.books.get_mut(&id) else {
        return Tick::reply(not_found());
    };
    let Some(left) = book.copies.checked_sub(1) else {
        return Tick::reply(Problem::new(409, "All copies are lent"));
    };
    book.copies = left;
    Tick::next(book.title.clone())
}

/// … and then, when the shelf is free for others, writes it down.
fn note(Carried(title): Carried<String>, mut loans: Write<Loans>) -> Json<usize> {
    if loans.titles.len() < LOANS_MAX {
        loans.titles.push(title);
    }
    Json(loans.titles.len())
}

fn loans(loans: Read<Loans>) -> Json<Vec<String>> {
    Json(loans.titles.clone())
}

/// The service, before it runs.
pub fn service() -> Service {
    Service::new()
        .share_with(Shelf::default(), OnPanic::roll_back())
        .share(Loans::default())
        .get("/books", list)
        .post("/books", add)
        .get("/books/{id}", show)
        .delete("/books/{id}", remove)
        .post("/books/{id}/loan", next_tick(lend, note))
        .get("/loans", loans)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let running = service().build()?;
    println!("{}", running.explain());
    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:8080".to_owned());
    running.serve(TcpListener::bind(address).await?).await?;
    Ok(())
}
