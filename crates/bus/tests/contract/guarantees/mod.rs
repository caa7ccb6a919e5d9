//! All guarantees of the contract, by subject. One guarantee is one function and one line.

mod commits;
mod delivery;
mod documents;
mod durability;
mod network;
mod retries;
mod topics;

use crate::suite::Guarantee;

/// Every guarantee, in the order of the table.
pub fn all() -> Vec<Guarantee> {
    [
        delivery::ALL,
        retries::ALL,
        topics::ALL,
        durability::ALL,
        commits::ALL,
        documents::ALL,
        network::ALL,
    ]
    .concat()
}
