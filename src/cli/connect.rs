//! `ostler connect`: a bridge between standard streams and the broker. It finds or starts the broker and says hello; from then on every line
//! of JSON-RPC passes both ways as it is. With this any language that can start a subprocess has an SDK.

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use crate::client::bridge;

/// For programs: pass JSON-RPC lines between standard input and output and the broker, which is found or started
///
/// Hello is said already; from then on each line is a call or an answer of docs/PROTOCOL.md. With this any language that can start a subprocess
/// can use ostler.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<Exit, Failure> {
    const ATTEMPT: &str = "bridge to the broker";
    let options = context.client_options(ATTEMPT, context.unlimited())?;
    bridge::bridge(options, std::io::stdin(), std::io::stdout()).map_err(|error| Failure::new(ATTEMPT, error))?;
    Ok(Exit::Done)
}
