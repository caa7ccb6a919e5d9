//! Stores for real: SQLite files, a PostgreSQL server, and processes that are killed while they write.

mod contract;
mod kill;
mod postgres;
mod server;
mod sqlite;
