//! The laws of docs/ARCHITECTURE.md, each executed on whole brokers under its number.

/// Law 11.
mod adopt;
/// Law 10.
mod alive;
/// Law 9.
mod bounded;
/// Law 9, session by session.
mod cycles;
/// Law 7.
mod honest;
/// Law 5.
mod once;
/// Law 8.
mod scoped;
/// Laws 4 to 7 under fire.
mod storm;
