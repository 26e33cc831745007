//! Who may do what about a session: every method that names one, asked by everybody that there is around it, as one table. Whoever may not know of
//! it is answered as of a session that was never there, word for word (requirements R66, R67, R70).

use ostler::client::Client;
use ostler::rpc::error::{ErrorCode, WireError};
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::post::{client, client_within};
use crate::support::scene::text;
use crate::support::{FIXTURE, Root};

/// What the answer says of the caller's right: `yes`, `no` (there is no such session), or that it is denied and why.
fn right(answer: &Result<Value, WireError>) -> String {
    match answer {
        Err(error) if error.code == ErrorCode::NotFound && error.data.get("reason") != Some(&json!("no_report")) => {
            "no".to_owned()
        }
        Err(error) if error.code == ErrorCode::Denied => text(&error.data["reason"]).to_owned(),
        Err(error) if error.code == ErrorCode::InvalidInput => format!("{error:?}"),
        // What its state forbids was not refused to the caller.
        Ok(_) | Err(_) => "yes".to_owned(),
    }
}

/// A child of whoever asks, or of nobody for the owner.
fn spawn(client: &mut Client) -> Value {
    let spawn = json!({"key": client.new_key(), "command": [FIXTURE, "sleep"], "cwd": "/"});
    client.call(Method::SessionSpawn, spawn).expect("it starts")["session"]["id"].clone()
}

/// The methods, with what else they need; those that end it last.
fn methods() -> Vec<(Method, Value)> {
    vec![
        (Method::SessionGet, json!({})),
        (Method::SessionWait, json!({"for": "ready"})),
        (Method::SessionRead, json!({})),
        (Method::SessionEndpoint, json!({})),
        (Method::OperationList, json!({})),
        (Method::MessageList, json!({})),
        (Method::MessageSend, json!({"text": "hello"})),
        (Method::ReportList, json!({})),
        (Method::ReportRead, json!({})),
        (Method::EventsSubscribe, json!({})),
        (Method::SessionReconcile, json!({})),
        (Method::SessionResume, json!({})),
        (Method::SessionInterrupt, json!({})),
        (Method::SessionStop, json!({})),
        (Method::SessionDelete, json!({})),
    ]
}

fn ask(client: &mut Client, method: Method, more: &Value, session: &str) -> Result<Value, WireError> {
    let mut params = more.clone();
    if method == Method::EventsSubscribe {
        params["sessions"] = json!([session]);
    } else {
        params["session"] = json!(session);
    }
    if method.class() == ostler::rpc::method::Class::Mutates {
        params["key"] = json!(client.new_key());
    }
    client.ask_here(method, &params)
}

#[test]
fn everybody_may_do_this_and_nothing_else() {
    let root = Root::new();
    let mut owner = client(&root);
    let [grandparent, stranger] = [(); 2].map(|()| spawn(&mut owner));
    let parent = spawn(&mut client_within(&root, &grandparent));
    let [target, sibling] = [(); 2].map(|()| spawn(&mut client_within(&root, &parent)));
    let child = spawn(&mut client_within(&root, &target));
    let unknown = "aaaabbbbcccc";
    let mut table = Vec::new();
    for (method, more) in methods() {
        let mut row = Vec::new();
        for caller in [&child, &sibling, &grandparent, &stranger, &target, &parent] {
            let mut client = client_within(&root, caller);
            let answer = ask(&mut client, method, &more, text(&target));
            row.push(right(&answer));
            let nobody = ask(&mut client, method, &more, unknown);
            if let (Err(refused), "no") = (&answer, right(&answer).as_str()) {
                let mut refused = refused.clone();
                refused.message = refused.message.replace(text(&target), unknown);
                for (_, value) in refused.data.iter_mut().filter(|(_, value)| **value == *text(&target)) {
                    *value = json!(unknown);
                }
                assert_eq!(Err(refused), nobody, "{method}: a refusal tells that it is there");
            }
        }
        row.push(right(&ask(&mut owner, method, &more, text(&target))));
        table.push(format!("{method}: {}", row.join(" ")));
    }
    // child, sibling, grandparent, stranger, itself, parent, owner
    assert_eq!(
        table.join("\n"),
        "session.get: no no no no yes yes yes\n\
         session.wait: no no no no yes yes yes\n\
         session.read: no no no no yes yes yes\n\
         session.endpoint: no no no no yes yes yes\n\
         operation.list: no no no no yes yes yes\n\
         message.list: yes no no no yes yes yes\n\
         message.send: yes no no no itself yes yes\n\
         report.list: no yes no no yes yes yes\n\
         report.read: no yes no no yes yes yes\n\
         events.subscribe: no no no no yes yes yes\n\
         session.reconcile: owner_only owner_only owner_only owner_only owner_only owner_only yes\n\
         session.resume: no no no no itself yes yes\n\
         session.interrupt: no no no no itself yes yes\n\
         session.stop: no no no no itself yes yes\n\
         session.delete: no no no no itself yes no",
        "its parent has deleted it by then"
    );
}
