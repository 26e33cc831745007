//! What a finished command left: exit code, output, and the same as JSON, with failures that show all of it.

use serde_json::Value;
use std::fmt;
use std::process::ExitStatus;

/// A finished command.
#[derive(Clone)]
pub(crate) struct Output {
    /// What was run, for messages.
    pub(crate) command: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Output {
    /// The exit code; `None` if a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Standard output as text, bad UTF-8 replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text, bad UTF-8 replaced.
    pub(crate) fn error_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Fails the test unless the command ended with `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Output {
        assert!(self.code() == Some(code), "expected exit code {code}\n{self:?}");
        self
    }

    /// The one JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let mut documents = self.json_lines();
        assert!(documents.len() == 1, "expected one document, got {}\n{self:?}", documents.len());
        documents.remove(0)
    }

    /// The JSON documents on standard output, in order.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let parsed = serde_json::Deserializer::from_slice(&self.stdout).into_iter().collect::<Result<Vec<Value>, _>>();
        match parsed {
            Ok(documents) => documents,
            Err(error) => panic!("not JSON: {error}\n{self:?}"),
        }
    }

    /// The `code` of the error document on standard output.
    #[track_caller]
    pub(crate) fn error_code(&self) -> String {
        let document = self.json();
        match document["error"]["code"].as_str() {
            Some(code) => code.to_owned(),
            None => panic!("no error code\n{self:?}"),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Output { command, status, .. } = self;
        write!(f, "$ {command}\n{status}\n--- stdout\n{}\n--- stderr\n{}", self.text(), self.error_text())
    }
}

#[cfg(test)]
mod tests {
    use super::Output;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn output(raw_status: i32, stdout: &str) -> Output {
        let status = ExitStatus::from_raw(raw_status);
        Output { command: "ostler x".into(), status, stdout: stdout.into(), stderr: b"because\n".into() }
    }

    #[test]
    fn documents_are_read_one_or_many() {
        assert_eq!(output(0, "{\"a\":1}\n").exits(0).json()["a"], 1);
        assert_eq!(output(0, "{\"a\":1}\n{\"a\":2}\n").json_lines().len(), 2);
        assert_eq!(output(3 << 8, r#"{"schema":1,"error":{"code":"not_found"}}"#).exits(3).error_code(), "not_found");
        assert_eq!(output(9, "").code(), None, "ended by a signal");
    }

    #[test]
    #[should_panic(expected = "because")]
    fn a_wrong_exit_code_shows_what_the_command_said() {
        output(1 << 8, "").exits(0);
    }

    #[test]
    #[should_panic(expected = "expected one document, got 2")]
    fn two_documents_are_not_one() {
        output(0, "{}\n{}\n").json();
    }
}
