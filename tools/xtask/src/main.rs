//! The project's checks, as one command: `cargo xtask ci`.
fn main() {}
