//! A sender in this process: over one connection and once, or as often as it takes, under a key of its own.

use ostler::client::{Client, ClientOptions, Credential};
use ostler::os::deadline::Deadline;
use ostler::rpc::error::WireError;
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use crate::support::scene::text;
use crate::support::{Root, SOON};

/// What is sent under a key.
pub(super) fn letter(session: &Value, key: &str, words: &str) -> Value {
    json!({"session": text(session), "key": key, "text": words})
}

/// A client of the broker that is there, or that it starts.
pub(super) fn client(root: &Root) -> Client {
    let options = root.client_options(Deadline::after(SOON * 2));
    Client::connect_or_start(options).unwrap_or_else(|error| panic!("no broker: {error:?}"))
}

/// The same, for a session with its own credential.
pub(super) fn client_within(root: &Root, session: &Value) -> Client {
    let credential = root.path().join("sessions").join(text(session)).join("credential");
    let options = root.client_options(Deadline::after(SOON * 2));
    let options = ClientOptions { credential: Credential::Session(credential), ..options };
    Client::connect_or_start(options).unwrap_or_else(|error| panic!("no broker: {error:?}"))
}

/// Asks the broker that is there, once: who dies before it answers is not asked again.
pub(super) fn once(mut client: Client, method: Method, params: &Value) -> Result<Value, WireError> {
    client.set_deadline(Deadline::after(SOON));
    client.ask_here(method, params)
}

/// Asks until it is answered, whoever is the broker by then.
#[track_caller]
pub(super) fn insist(root: &Root, method: Method, params: &Value) -> Value {
    client(root).call(method, params.clone()).unwrap_or_else(|error| panic!("{method} {params}: {error:?}"))
}
