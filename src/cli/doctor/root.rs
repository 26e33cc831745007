//! The state root itself: where it is, whose it is, who may touch what in it, how long it lasts, and that debris stays within its bounds.

use super::Check;
use crate::broker::{quarantine, secret};
use crate::cli::context::Context;
use crate::os::filesystem::{self, Lasts};
use crate::os::folder::{Folder, Kind, Standing};
use crate::os::paths::StateRoot;

/// Less room than this and the next writes may fail.
const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Most names that one run looks at, so that a huge root does not make it hang.
const NAMES_MAX: usize = 20_000;
/// How deep modes are looked at: ROOT, `sessions`, a session, an episode, its files.
const DEPTH_MAX: usize = 4;
/// Most culprits that are named.
const NAMED_MAX: usize = 5;
/// What was set aside stays within this (contract section 4).
const DAMAGE_ITEMS_MAX: usize = 64;

/// The root, if it can be used, and what is to say about it.
pub(super) fn check(context: &Context) -> (Vec<Check>, Option<StateRoot>) {
    const CHECK: &str = "root";
    let path = match context.root_path("find the state root") {
        Ok(path) => path,
        Err(_) => {
            let remedy = "give --root, or set OSTLER_ROOT";
            return (vec![Check::fail(CHECK, "nothing says where the state root is", remedy)], None);
        }
    };
    match StateRoot::open(&path) {
        Err(error) => {
            let remedy = error.remedy().unwrap_or_else(|| "name another root, or do what is said there".to_owned());
            (vec![Check::fail(CHECK, error.to_string(), remedy)], None)
        }
        Ok(None) => (vec![Check::skip(CHECK, format!("{} is not there yet", path.display()))], None),
        Ok(Some(root)) => {
            let found = Check::ok(CHECK, format!("{} is ours alone", root.path().display()));
            (vec![found, medium(root.folder()), writable(root.folder()), room(root.folder())], Some(root))
        }
    }
}

fn medium(folder: &Folder) -> Check {
    const CHECK: &str = "file system";
    match filesystem::lasts(folder) {
        Ok(Lasts::BeyondReboot) => Check::ok(CHECK, "it is on a local disk"),
        Ok(Lasts::UntilReboot) => {
            Check::warn(CHECK, "it is in memory: a restart of the machine loses ledger and output", "a root on a disk")
        }
        Err(error) => Check::skip(CHECK, error.to_string()),
    }
}

fn writable(folder: &Folder) -> Check {
    const CHECK: &str = "writable";
    match filesystem::writable(folder) {
        Ok(()) => Check::ok(CHECK, "files can be made in it"),
        Err(error) => Check::fail(
            CHECK,
            format!("no file can be made in it: {error}"),
            "make it writable for this user, or mount its file system read-write",
        ),
    }
}

fn room(folder: &Folder) -> Check {
    const CHECK: &str = "space";
    match filesystem::free_bytes(folder) {
        Ok(free) if free >= FREE_BYTES_MIN => Check::ok(CHECK, format!("{} MiB are free", free / (1024 * 1024))),
        Ok(free) => Check::warn(CHECK, format!("only {} KiB are free", free / 1024), "free some space: ostler prune"),
        Err(error) => Check::skip(CHECK, error.to_string()),
    }
}

/// Whether anything in the root belongs to somebody else or is open to others.
pub(super) fn modes(root: &StateRoot) -> Vec<Check> {
    const CHECK: &str = "modes";
    let mut walk = Walk { culprits: Vec::new(), unreadable: Vec::new(), left: NAMES_MAX };
    walk.folder(root.folder(), "", DEPTH_MAX);
    let mut checks = Vec::new();
    if !walk.culprits.is_empty() {
        let more = walk.culprits.len().saturating_sub(NAMED_MAX);
        walk.culprits.truncate(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let evidence = format!("{}{more}", walk.culprits.join(", "));
        checks.push(Check::fail(CHECK, evidence, format!("chmod -R go= {}", root.path().display())));
    }
    checks.extend(walk.unreadable.first().map(|first| Check::skip(CHECK, first.clone())));
    if walk.left == 0 {
        checks.push(Check::skip(CHECK, format!("more than {NAMES_MAX} names: the rest was not looked at")));
    }
    if checks.is_empty() {
        checks.push(Check::ok(CHECK, format!("{} names, all ours alone", NAMES_MAX - walk.left)));
    }
    checks
}

struct Walk {
    culprits: Vec<String>,
    unreadable: Vec<String>,
    left: usize,
}

impl Walk {
    fn folder(&mut self, folder: &Folder, shown: &str, depth: usize) {
        let names = match folder.names() {
            Ok(names) => names,
            Err(error) => return self.unreadable.push(format!("{shown}: {error}")),
        };
        for name in names {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            // What is gone by now was being removed.
            let Ok(Some(there)) = folder.look(&name) else { continue };
            let path = format!("{shown}{name}");
            if let Some(culprit) = judge(&path, &there) {
                self.culprits.push(culprit);
            }
            if there.kind == Kind::Folder && depth > 0 {
                match folder.open_folder(&name) {
                    Ok(below) => self.folder(&below, &format!("{path}/"), depth - 1),
                    Err(error) => self.unreadable.push(format!("{path}: {error}")),
                }
            }
        }
    }
}

/// Links have no mode of their own.
fn judge(path: &str, there: &Standing) -> Option<String> {
    let is_fine = there.is_private() || there.kind == Kind::Link;
    (!is_fine).then(|| format!("{path} (uid {}, mode {:04o})", there.uid, there.mode))
}

/// Whether something else stands where a start needs a folder or a file of ours. What a start overcomes by itself (lock, record, log) is not asked.
pub(super) fn places(root: &StateRoot) -> Vec<Check> {
    const CHECK: &str = "places";
    let below = |folder: &str, name: &str| match root.folder().open_folder(folder) {
        Ok(folder) => folder.look(name),
        Err(_) => Ok(None),
    };
    let look = |name: &str| root.folder().look(name);
    let asked = [
        ("ledger", Kind::Folder, look("ledger")),
        ("ledger/writer.lock", Kind::File, below("ledger", "writer.lock")),
        ("sessions", Kind::Folder, look("sessions")),
        ("quarantine", Kind::Folder, look("quarantine")),
    ];
    let remedy = |name: &str| format!("move {} away", root.path().join(name).display());
    let mut checks = Vec::new();
    for (name, wanted, there) in asked {
        match there {
            Ok(Some(there)) if there.kind != wanted => {
                let (is, has_to_be) = (named(there.kind), named(wanted));
                checks.push(Check::fail(CHECK, format!("{name} is {is} and has to be {has_to_be}"), remedy(name)));
            }
            Ok(_) => {}
            Err(error) => checks.push(Check::skip(CHECK, format!("{name}: {error}"))),
        }
    }
    if let Err(error) = secret::look(root.path()) {
        let remedy = format!(
            "{}; the next broker makes a new one, and cannot compare earlier requests",
            remedy(secret::FILE_NAME)
        );
        checks.push(Check::fail(CHECK, format!("{} cannot be read: {error}", secret::FILE_NAME), remedy));
    }
    if checks.is_empty() {
        checks.push(Check::ok(CHECK, "folders and files are what a start needs"));
    }
    checks
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a file",
        Kind::Folder => "a folder",
        Kind::Link => "a link",
        Kind::Socket => "a socket",
        Kind::Other => "a pipe or a device",
    }
}

/// Whether what was set aside stays within its bounds.
pub(super) fn quarantine(root: &StateRoot) -> Vec<Check> {
    const CHECK: &str = "quarantine";
    let folder = root.folder();
    let locks = folder.names().map(|names| names.iter().filter(|name| quarantine::is_quarantined(name)).count());
    let damage = match folder.look("quarantine") {
        Ok(Some(_)) => {
            folder.open_folder("quarantine").and_then(|set_aside| set_aside.names()).map(|names| names.len())
        }
        Ok(None) => Ok(0),
        Err(error) => Err(error),
    };
    let (locks, damage) = match (locks, damage) {
        (Ok(locks), Ok(damage)) => (locks, damage),
        (Err(error), _) | (_, Err(error)) => return vec![Check::skip(CHECK, error.to_string())],
    };
    let evidence = format!("{locks} records of dead owners, {damage} damaged pieces");
    let is_within = locks <= quarantine::KEPT_MAX + 1 && damage <= DAMAGE_ITEMS_MAX;
    vec![match (is_within, damage) {
        (false, _) => {
            let remedy =
                "the next start of a broker clears what is beyond its bounds, ostler doctor --fix quarantine all of it";
            Check::warn(CHECK, evidence, remedy)
        }
        (true, 0) => Check::ok(CHECK, evidence),
        (true, _) => Check::warn(
            CHECK,
            evidence,
            format!(
                "look into {}/quarantine; then, while no broker runs, ostler doctor --fix quarantine",
                root.path().display()
            ),
        ),
    }]
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn root(home: &tempfile::TempDir) -> StateRoot {
        StateRoot::open_or_create(&home.path().join("root")).unwrap()
    }

    #[test]
    fn what_is_open_to_others_is_named_with_its_mode() {
        let home = tempfile::tempdir().unwrap();
        let root = root(&home);
        std::fs::create_dir_all(root.path().join("sessions/x")).unwrap();
        let file = root.path().join("sessions/x/spec.json");
        std::fs::write(&file, "").unwrap();
        for path in ["sessions", "sessions/x"] {
            std::fs::set_permissions(root.path().join(path), std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o600);
        assert_eq!(modes(&root), [Check::ok("modes", "3 names, all ours alone")]);
        mode(0o640);
        let found = modes(&root);
        assert_eq!(found[0].status, Status::Fail);
        assert!(found[0].evidence.starts_with("sessions/x/spec.json (uid "), "{}", found[0].evidence);
        assert!(found[0].evidence.ends_with("mode 0640)"), "{}", found[0].evidence);
    }

    #[test]
    fn what_stands_in_the_way_of_a_start_is_named() {
        let home = tempfile::tempdir().unwrap();
        let root = root(&home);
        assert_eq!(places(&root)[0].status, Status::Ok, "nothing is there yet");
        std::fs::create_dir_all(root.path().join("ledger/writer.lock")).unwrap();
        for name in ["sessions", "quarantine", secret::FILE_NAME] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let found = places(&root);
        let evidence: Vec<&str> = found.iter().map(|check| check.evidence.as_str()).collect();
        assert!(found.iter().all(|check| check.status == Status::Fail), "{found:?}");
        assert_eq!(
            evidence[..3],
            [
                "ledger/writer.lock is a folder and has to be a file",
                "sessions is a file and has to be a folder",
                "quarantine is a file and has to be a folder"
            ]
        );
        assert!(evidence[3].contains("request.secret has another length"), "{evidence:?}");
    }

    #[test]
    fn debris_beyond_its_bounds_and_damage_are_shown() {
        let home = tempfile::tempdir().unwrap();
        let root = root(&home);
        assert_eq!(quarantine(&root)[0].status, Status::Ok);
        for number in 0..quarantine::KEPT_MAX + 2 {
            let name = format!(".broker.lock.stale-{}-{number:016x}", "0".repeat(64));
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let found = quarantine(&root);
        assert_eq!((found[0].status, found[0].evidence.contains("12 records")), (Status::Warn, true), "{found:?}");
    }
}
