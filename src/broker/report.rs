//! The broker's end of the report pipe. A client that is gone, or was never there, changes nothing: a report is told
//! once and never waited for.

use std::fs::File;
use std::io::Write;

use crate::os::detach;
use crate::rpc::error::WireError;
use crate::rpc::report::{Failure, Line};
use crate::rpc::wire::Broker;

pub use crate::rpc::report::Stage;

/// The writing end, until the last line is said.
#[derive(Debug)]
pub struct Reporter {
    pipe: Option<File>,
    stage: Stage,
}

impl Reporter {
    /// The pipe that the starting client gave to this process, if one did.
    pub fn of_process() -> Reporter {
        Reporter { pipe: detach::take_report(), stage: Stage::Root }
    }

    /// A reporter that writes to `pipe`.
    pub fn to(pipe: File) -> Reporter {
        Reporter { pipe: Some(pipe), stage: Stage::Root }
    }

    /// Says what is being done now.
    pub fn stage(&mut self, stage: Stage) {
        self.stage = stage;
        self.write(&Line::Stage(stage));
    }

    /// The stage said last.
    pub fn current(&self) -> Stage {
        self.stage
    }

    /// The last line: published, and it answers.
    pub fn ready(mut self, broker: &Broker) {
        self.write(&Line::Ready(Box::new(broker.clone())));
    }

    /// The last line: another one is the broker, and it answers.
    pub fn lost(mut self, winner: &Broker) {
        self.write(&Line::Lost(Box::new(winner.clone())));
    }

    /// The last line: the start is given up at the stage said last.
    pub fn failed(mut self, error: &WireError) {
        self.write(&Line::Failed(Box::new(Failure { stage: self.stage, error: error.clone() })));
    }

    fn write(&mut self, line: &Line) {
        let written = self.pipe.as_mut().map(|pipe| pipe.write_all(&line.to_bytes()));
        if matches!(written, Some(Err(_))) {
            self.pipe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::error::ErrorCode;
    use std::io::Read;

    #[test]
    fn stages_then_one_last_line_then_end_of_file() {
        let (mut read, write) = std::io::pipe().unwrap();
        let mut reporter = Reporter::to(std::os::fd::OwnedFd::from(write).into());
        reporter.stage(Stage::Lock);
        reporter.stage(Stage::Beat);
        reporter.failed(&WireError::new(ErrorCode::StorageFailed, "m"));
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(
            text,
            "{\"stage\":\"lock\"}\n{\"stage\":\"beat\"}\n{\"failed\":{\"stage\":\"beat\",\"error\":{\"code\":\"storage_failed\",\
             \"message\":\"m\",\"retry\":\"same_key\",\"data\":{}}}}\n"
        );
    }

    #[test]
    fn nobody_has_to_listen() {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let mut reporter = Reporter::to(std::os::fd::OwnedFd::from(write).into());
        reporter.stage(Stage::Lock);
        reporter.stage(Stage::Ledger);
        assert_eq!(reporter.current(), Stage::Ledger);
        reporter.failed(&WireError::new(ErrorCode::Internal, "m"));
    }
}
