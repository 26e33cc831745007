//! Programs that start their daemon when the first client needs it: how a client of each asks the smallest question, how the daemon
//! is told to go, and where everything of one storm lies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use super::left;
use crate::at;

/// A program of the table.
#[derive(Debug)]
pub(crate) enum Contender {
    Ostler(PathBuf),
    Tmux(PathBuf),
    Watchman(PathBuf),
    /// The client and the daemon.
    Pueue(PathBuf, PathBuf),
}

/// Ours, and the others that are installed here; the names of those that are not.
pub(crate) fn contenders(program: &Path) -> (Vec<Contender>, Vec<&'static str>) {
    let mut present = vec![Contender::Ostler(program.to_owned())];
    let mut absent = Vec::new();
    let mut add = |name, found: Option<Contender>| match found {
        Some(contender) => present.push(contender),
        None => absent.push(name),
    };
    add("tmux", installed("tmux").map(Contender::Tmux));
    add("watchman", installed("watchman").map(Contender::Watchman));
    add("pueue", installed("pueue").zip(installed("pueued")).map(|(client, daemon)| Contender::Pueue(client, daemon)));
    (present, absent)
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Where everything of one storm lies. Dropping it ends whatever carries its path in the environment, and removes it.
#[derive(Debug)]
pub(crate) struct Place {
    /// On the file system that is measured.
    folder: PathBuf,
    /// Short enough for sockets, and the mark of every process of the storm.
    runtime: PathBuf,
}

impl Place {
    pub(crate) fn new(scratch: &Path) -> Result<Place, String> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("s{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let place = Place { folder: scratch.join(&name), runtime: std::env::temp_dir().join(name) };
        for folder in [&place.folder, &place.runtime] {
            let made = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(folder);
            at(&folder.display().to_string(), made)?;
        }
        Ok(place)
    }

    /// What the environment of every process of this storm holds.
    pub(crate) fn mark(&self) -> &Path {
        &self.runtime
    }

    fn file(&self, name: &str) -> OsString {
        self.folder.join(name).into()
    }

    fn socket(&self) -> OsString {
        self.runtime.join("socket").into()
    }

    /// A command with an environment of this storm and nothing else.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("HOME", &self.folder).env("XDG_RUNTIME_DIR", &self.runtime).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        left::end(&self.runtime);
        for folder in [&self.folder, &self.runtime] {
            if let Err(error) = std::fs::remove_dir_all(folder) {
                println!("{} stays: {error}", folder.display());
            }
        }
    }
}

impl Contender {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Contender::Ostler(_) => "ostler",
            Contender::Tmux(_) => "tmux",
            Contender::Watchman(_) => "watchman",
            Contender::Pueue(..) => "pueue",
        }
    }

    /// Which version it is, as it says itself.
    pub(crate) fn version(&self) -> String {
        let (program, flag) = match self {
            Contender::Tmux(program) => (program, "-V"),
            Contender::Ostler(program) | Contender::Watchman(program) | Contender::Pueue(program, _) => {
                (program, "--version")
            }
        };
        let said = Command::new(program).arg(flag).output().map(|output| output.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        if said.starts_with(self.name()) { said } else { format!("{} {said}", self.name()) }
    }

    /// How a client of it finds or starts the daemon, in words.
    pub(crate) fn way(&self) -> &'static str {
        match self {
            Contender::Ostler(_) => "`ostler list`",
            Contender::Tmux(_) => "`tmux start-server ';' display-message -p '#{pid}'` with `exit-empty off`",
            Contender::Watchman(_) => "`watchman get-pid`",
            Contender::Pueue(..) => {
                "`until pueue status; do pueued --daemonize; sleep 0.1; done`, for its client starts no daemon"
            }
        }
    }

    /// Lays down the files that it wants before its first client.
    pub(crate) fn prepare(&self, place: &Place) -> Result<(), String> {
        let (name, text) = match self {
            Contender::Ostler(_) | Contender::Watchman(_) => return Ok(()),
            Contender::Tmux(_) => ("tmux.conf", "set -s exit-empty off\n".to_owned()),
            Contender::Pueue(..) => ("pueue.yml", pueue_settings(place)),
        };
        at(name, std::fs::write(place.folder.join(name), text))
    }

    /// A client: it finds or starts the daemon, asks it something, and exits with 0 if it was answered.
    pub(crate) fn client(&self, place: &Place) -> (PathBuf, Vec<OsString>) {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        match self {
            Contender::Ostler(program) => {
                (program.clone(), vec!["--root".into(), place.file("root"), "list".into(), "--json".into()])
            }
            Contender::Tmux(program) => {
                let mut line = vec!["-S".into(), place.socket(), "-f".into(), place.file("tmux.conf")];
                line.extend(words(&["start-server", ";", "display-message", "-p", "#{pid}"]));
                (program.clone(), line)
            }
            Contender::Watchman(program) => (program.clone(), watchman(place, "get-pid")),
            Contender::Pueue(client, daemon) => {
                let script = "until \"$0\" -c \"$2\" status; do \"$1\" -c \"$2\" --daemonize; sleep 0.1; done";
                let mut line = words(&["-c", script]);
                line.extend([client.into(), daemon.into(), place.file("pueue.yml")]);
                ("/bin/sh".into(), line)
            }
        }
    }

    /// Tells the daemon to go, and waits as long as the command that does it.
    pub(crate) fn stop(&self, place: &Place) -> Result<(), String> {
        let (program, line): (&Path, Vec<OsString>) = match self {
            Contender::Ostler(program) => (program, vec!["--root".into(), place.file("root"), "shutdown".into()]),
            Contender::Tmux(program) => (program, vec!["-S".into(), place.socket(), "kill-server".into()]),
            Contender::Watchman(program) => (program, watchman(place, "shutdown-server")),
            Contender::Pueue(client, _) => (client, vec!["-c".into(), place.file("pueue.yml"), "shutdown".into()]),
        };
        at(self.name(), place.command(program).args(line).status()).map(drop)
    }
}

fn watchman(place: &Place, question: &str) -> Vec<OsString> {
    let mut line: Vec<OsString> = vec!["-U".into(), place.socket()];
    for (option, name) in [("-o", "log"), ("--pidfile", "pid"), ("--statefile", "state")] {
        line.extend([option.into(), place.file(name)]);
    }
    line.push(question.into());
    line
}

fn pueue_settings(place: &Place) -> String {
    let (folder, runtime) = (place.folder.display(), place.runtime.display());
    format!(
        "shared:\n  pueue_directory: \"{folder}/pueue\"\n  runtime_directory: \"{runtime}\"\n  use_unix_socket: true\n\
         \x20 unix_socket_path: \"{runtime}/socket\"\n  pid_path: \"{runtime}/pueue.pid\"\n\
         client: {{}}\ndaemon: {{}}\n"
    )
}
