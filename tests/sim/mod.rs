//! The simulation: whole lives of a broker from a seed, with crashes between any two steps and an oracle that knows
//! what was promised.
//!
//! ```text
//! clients -> front -> broker (the product's desk, turn, outbox, ledger) -> hands -> hosts on a computer
//!    \_______________ oracle: what was told to whom, what really ran _______________/
//! ```
//! A seed is the whole run: the same seed gives the same trace. `OSTLER_SIM_SEED=n` runs that seed alone and prints it.

mod broker;
mod clients;
mod computer;
mod evidence;
mod forgetting;
mod front;
mod hands;
mod history;
mod host;
mod letters;
mod oracle;
mod plan;
mod planted;
mod promises;
mod pulls;
/// Also drives the soak.
pub(crate) mod random;
mod seeds;
mod start;
mod story;
mod trace;
mod turns;
mod words;
mod work;
