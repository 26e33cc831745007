//! The ledger: verified whole, as `ostler ledger verify` does it.

use ostler_ledger::VerifyOptions;

use super::super::ledger::source::has_segment;
use super::Check;
use crate::os::paths::StateRoot;
use crate::os::process::boot_id;

pub(super) fn check(root: &StateRoot) -> Check {
    const CHECK: &str = "ledger";
    let folder = root.path().join("ledger");
    if !folder.is_dir() {
        return Check::skip(CHECK, "there is none yet");
    }
    if !has_segment(&folder) {
        return Check::skip(CHECK, format!("no segment file in {}", folder.display()));
    }
    let options = VerifyOptions { boot: boot_id().ok(), since: None };
    match ostler_ledger::verify_folder(&folder, &options) {
        Err(error) => Check::fail(CHECK, error.to_string(), "a newer ostler, or another root"),
        Ok(report) if report.ok() => {
            Check::ok(CHECK, format!("{} records verify, head {}", report.records, report.head.seq))
        }
        Ok(report) => {
            let first = report.problems.first().map(|problem| problem.detail.as_str()).unwrap_or_default();
            Check::fail(
                CHECK,
                format!("{} problems, the first: {first}", report.problems.len()),
                "ostler ledger verify",
            )
        }
    }
}
