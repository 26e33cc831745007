//! The JSON-RPC 2.0 envelope: requests in, responses out, and the other way round for clients.
//!
//! Stricter than the specification where leniency would lose something: no batches, and no request without an id, since
//! its refusal could not be told.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::error::{APPLICATION_ERROR, ErrorCode, INVALID_REQUEST, PARSE_ERROR, WireError};
use super::frame::{DEPTH_MAX, FRAME_BYTES_MAX, is_shallow};
use super::wire::Encoded;

/// Longest text id, bytes.
const ID_BYTES_MAX: usize = 128;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// A text or a whole number.
    pub id: Value,
    /// Name of the method.
    pub method: String,
    /// Its parameters, an object.
    pub params: Value,
}

/// Why a line is no request.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The request's id, where it could be read; null otherwise.
    pub id: Value,
    /// The JSON-RPC code.
    pub rpc_code: i64,
    /// What is wrong.
    pub error: WireError,
}

/// Reads a request.
///
/// # Errors
/// [`Rejected`], which is to be answered.
pub fn read_request(line: &[u8]) -> Result<Request, Box<Rejected>> {
    let document = read_document(line)?;
    let Value::Object(mut envelope) = document else {
        let what = if document.is_array() { "batches are not served" } else { "a request is an object" };
        return Err(Rejected::invalid(Value::Null, what));
    };
    let id = match envelope.remove("id") {
        Some(id @ Value::String(_)) if id.as_str().is_some_and(|text| text.len() <= ID_BYTES_MAX) => id,
        Some(id @ Value::Number(_)) if id.is_i64() || id.is_u64() => id,
        Some(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
        )
        | None => {
            return Err(Rejected::invalid(
                Value::Null,
                "a request has an id: a text of up to 128 bytes or a whole number",
            ));
        }
    };
    if envelope.remove("jsonrpc").as_ref().and_then(Value::as_str) != Some("2.0") {
        return Err(Rejected::invalid(id, "`jsonrpc` has to be \"2.0\""));
    }
    let Some(Value::String(method)) = envelope.remove("method") else {
        return Err(Rejected::invalid(id, "`method` has to be a text"));
    };
    let params = match envelope.remove("params") {
        None => Value::Object(Map::new()),
        Some(params @ Value::Object(_)) => params,
        Some(_) => return Err(Rejected::parameters(id, "`params` has to be an object")),
    };
    match envelope.keys().next() {
        Some(name) => Err(Rejected::invalid(id, &format!("a request has no member `{name}`"))),
        None => Ok(Request { id, method, params }),
    }
}

fn read_document(line: &[u8]) -> Result<Value, Box<Rejected>> {
    let rejected = |message: String| {
        let error = WireError::new(ErrorCode::InvalidInput, message).reason("not_json");
        Box::new(Rejected { id: Value::Null, rpc_code: PARSE_ERROR, error })
    };
    if !is_shallow(line, DEPTH_MAX) {
        return Err(rejected(format!("the line nests deeper than {DEPTH_MAX}")));
    }
    serde_json::from_slice(line).map_err(|error| rejected(format!("the line is not JSON: {error}")))
}

impl Rejected {
    fn invalid(id: Value, message: &str) -> Box<Rejected> {
        let error = WireError::new(ErrorCode::InvalidInput, message).reason("not_a_request");
        Box::new(Rejected { id, rpc_code: INVALID_REQUEST, error })
    }

    fn parameters(id: Value, message: &str) -> Box<Rejected> {
        let error = WireError::new(ErrorCode::InvalidInput, message).reason("parameters");
        Box::new(Rejected { id, rpc_code: APPLICATION_ERROR, error })
    }

    /// The line that answers it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let error = self.error.to_rpc_as(self.rpc_code);
        line(&Response { jsonrpc: "2.0", id: &self.id, result: None, error: Some(&error) })
    }
}

#[derive(Serialize)]
struct Response<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Value>,
}

#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a P,
}

/// The line that answers a request. An answer longer than a line may be becomes `too_large`.
pub fn response(id: &Value, answer: &Result<Encoded, WireError>) -> Vec<u8> {
    let bytes = match answer {
        Ok(result) => line(&Response { jsonrpc: "2.0", id, result: Some(result), error: None }),
        Err(error) => line(&Response { jsonrpc: "2.0", id, result: None, error: Some(&error.to_rpc()) }),
    };
    if bytes.len() <= FRAME_BYTES_MAX {
        return bytes;
    }
    let error = WireError::new(ErrorCode::TooLarge, "the answer is longer than a line may be; ask for less")
        .with("bytes", u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    line(&Response { jsonrpc: "2.0", id, result: None, error: Some(&error.to_rpc()) })
}

/// The line that asks.
pub fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&Call { jsonrpc: "2.0", id: Some(id), method, params })
}

/// The line that tells without asking.
pub fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    line(&Call { jsonrpc: "2.0", id: None, method, params })
}

fn line(document: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(document).expect("an envelope is plain data");
    bytes.push(b'\n');
    bytes
}

/// What a client reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// The answer to a request.
    Response {
        /// Which one; null where the other end could not read it.
        id: Value,
        /// What it says.
        answer: Result<Value, WireError>,
    },
    /// Something told without being asked.
    Notification {
        /// What it is about.
        method: String,
        /// What it says.
        params: Value,
    },
}

/// Reads what the broker sent; none if it is not of this protocol.
pub fn read_incoming(line: &[u8]) -> Option<Incoming> {
    let Ok(Value::Object(mut envelope)) = serde_json::from_slice(line) else {
        return None;
    };
    if let Some(Value::String(method)) = envelope.remove("method") {
        return Some(Incoming::Notification { method, params: envelope.remove("params").unwrap_or_default() });
    }
    let id = envelope.remove("id")?;
    let answer = match (envelope.remove("result"), envelope.remove("error")) {
        (_, Some(error)) => Err(WireError::from_rpc(&error)),
        (Some(result), None) => Ok(result),
        (None, None) => return None,
    };
    Some(Incoming::Response { id, answer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::wire::encode;
    use serde_json::json;

    #[test]
    fn a_request_is_read() {
        let request = read_request(br#"{"jsonrpc":"2.0","id":7,"method":"session.get","params":{"session":"a"}}"#);
        assert_eq!(
            request.unwrap(),
            Request { id: json!(7), method: "session.get".into(), params: json!({"session": "a"}) }
        );
        let request = read_request(br#"{"id":"x","method":"broker.status","jsonrpc":"2.0"}"#).unwrap();
        assert_eq!((request.id, request.params), (json!("x"), json!({})));
    }

    #[test]
    fn what_is_no_request_is_answered_with_its_id_and_a_standard_code() {
        let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "i".repeat(129));
        let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
        let cases: &[(&str, Value, i64, &str)] = &[
            ("", json!(null), -32700, "not JSON"),
            ("{\"jsonrpc\"", json!(null), -32700, "not JSON"),
            ("nonsense", json!(null), -32700, "not JSON"),
            (&deep, json!(null), -32700, "deeper"),
            ("3", json!(null), -32600, "an object"),
            ("[]", json!(null), -32600, "batches"),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, json!(null), -32600, "an id"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, json!(null), -32600, "an id"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, json!(null), -32600, "an id"),
            (&long_id, json!(null), -32600, "an id"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, json!(1), -32600, "2.0"),
            (r#"{"id":1,"method":"m"}"#, json!(1), -32600, "2.0"),
            (r#"{"jsonrpc":"2.0","id":1}"#, json!(1), -32600, "method"),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, json!(1), -32600, "method"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","more":2}"#, json!(1), -32600, "more"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#, json!(1), -32000, "params"),
        ];
        for (line, id, code, says) in cases {
            let rejected = read_request(line.as_bytes()).unwrap_err();
            assert_eq!((&rejected.id, rejected.rpc_code), (id, *code), "{line}");
            assert!(rejected.error.message.contains(says), "{line}: {}", rejected.error.message);
            let answer: Value = serde_json::from_slice(&rejected.to_bytes()).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (id, &json!(code)));
            assert_eq!(answer["error"]["data"]["code"], "invalid_input");
        }
        assert_eq!(read_request(b"\"\xff\"").unwrap_err().rpc_code, -32700);
    }

    #[test]
    fn an_answer_comes_back_as_it_was() {
        let error = WireError::new(ErrorCode::NotFound, "no such session");
        for answer in [Ok(json!({"a": [1]})), Err(error)] {
            let line = response(&json!(9), &answer.clone().map(|result| encode(&result)));
            assert_eq!(read_incoming(&line), Some(Incoming::Response { id: json!(9), answer }));
        }
        let told = notification("event", &json!({"x": 1}));
        let expected = Incoming::Notification { method: "event".into(), params: json!({"x": 1}) };
        assert_eq!(read_incoming(&told), Some(expected));
        for foreign in ["", "HTTP/1.1 400 Bad Request", "{}", "{\"id\":1}"] {
            assert_eq!(read_incoming(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn an_answer_too_long_for_a_line_says_so() {
        let line = response(&json!(1), &Ok(encode(&"x".repeat(FRAME_BYTES_MAX))));
        let answer: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(answer["error"]["data"]["code"], "too_large");
    }
}
