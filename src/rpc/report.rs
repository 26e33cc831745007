//! The report pipe: what a starting broker tells the client that started it, one JSON document a line.
//!
//! ```text
//! {"stage":"lock"}                                   any number of stages, in order, then exactly one of
//! {"ready":BROKER}                                   it is published and answers
//! {"lost":BROKER}                                    another one is the broker of this root, and answers
//! {"failed":{"stage":"ledger","error":ERROR}}        it gives up
//! ```
//! End of file without one of the last three means that it died.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::WireError;
use super::wire::Broker;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// What it is doing now.
    Stage(Stage),
    /// It is published and answers.
    Ready(Box<Broker>),
    /// Another one is the broker of this root, and answers.
    Lost(Box<Broker>),
    /// It gives up.
    Failed(Box<Failure>),
}

/// Why a start was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// At which stage.
    pub stage: Stage,
    /// Why.
    pub error: WireError,
}

/// The stages of a start, in their order (docs/ARCHITECTURE.md, "The order of a start").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Resolving and checking the state root.
    Root,
    /// Taking the broker lock.
    Lock,
    /// Recovering and folding the ledger.
    Ledger,
    /// Recording the new generation.
    Generation,
    /// Testing the life locks of live episodes.
    Hosts,
    /// Recording the last-seen time of every session.
    Beat,
    /// Listening.
    Listen,
    /// Answering its own hello.
    Hello,
    /// Publishing the discovery record.
    Publish,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 9] = [
        Stage::Root,
        Stage::Lock,
        Stage::Ledger,
        Stage::Generation,
        Stage::Hosts,
        Stage::Beat,
        Stage::Listen,
        Stage::Hello,
        Stage::Publish,
    ];

    /// Its name on the pipe and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Root => "root",
            Stage::Lock => "lock",
            Stage::Ledger => "ledger",
            Stage::Generation => "generation",
            Stage::Hosts => "hosts",
            Stage::Beat => "beat",
            Stage::Listen => "listen",
            Stage::Hello => "hello",
            Stage::Publish => "publish",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Line {
    /// The line as written, with its newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a report is plain data");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a line; none for one that a later version wrote.
    pub fn read(line: &[u8]) -> Option<Line> {
        serde_json::from_slice(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::error::ErrorCode;

    #[test]
    fn the_lines_are_fixed() {
        for stage in Stage::ALL {
            let line = format!("{{\"stage\":\"{stage}\"}}\n");
            assert_eq!(String::from_utf8(Line::Stage(stage).to_bytes()).unwrap(), line);
            assert_eq!(Line::read(line.as_bytes()), Some(Line::Stage(stage)));
        }
        let failure = Failure { stage: Stage::Beat, error: WireError::new(ErrorCode::StorageFull, "no space") };
        let line = br#"{"failed":{"stage":"beat","error":{"code":"storage_full","message":"no space","retry":"same_key","data":{}}}}"#;
        assert_eq!(Line::read(line), Some(Line::Failed(Box::new(failure))));
        assert_eq!(Line::read(b"{\"later\":1}"), None);
    }
}
