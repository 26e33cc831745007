//! The ledger's tests, one binary. Simulated storage unless a test says otherwise.

mod basics;
mod crashes;
mod damage;
mod support;
mod tails;
