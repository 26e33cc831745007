//! How a broker calls a host: `ostler host --root ... `, read without a general parser, because a host must be small
//! and start fast. Both directions stand here, so they cannot part.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::PathBuf;

/// The host's whole command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The state root, absolute.
    pub root: PathBuf,
    /// Where the endpoint's socket goes.
    pub runtime: PathBuf,
    /// Session id.
    pub session: String,
    /// Which run.
    pub episode: u32,
    /// Generation of the starting broker.
    pub generation: u64,
    /// Digest that the spec must have.
    pub spec_digest: String,
    /// The inherited descriptor of `life.lock`, locked.
    pub lock_fd: RawFd,
    /// The inherited end of the report pipe.
    pub report_fd: RawFd,
}

/// What is wrong with a host's command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("host: {0} is missing or wrong; this command is for ostler itself")]
pub struct ArgumentError(&'static str);

impl Arguments {
    /// As `ostler host` gets it, the program's name first.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["ostler".into(), "host".into()];
        let mut push = |name: &str, value: OsString| line.extend([name.into(), value]);
        push("--session", self.session.clone().into());
        push("--episode", self.episode.to_string().into());
        push("--root", self.root.clone().into());
        push("--runtime", self.runtime.clone().into());
        push("--generation", self.generation.to_string().into());
        push("--spec-digest", self.spec_digest.clone().into());
        push("--lock-fd", self.lock_fd.to_string().into());
        push("--report-fd", self.report_fd.to_string().into());
        line
    }

    /// Reads what follows `ostler host`.
    ///
    /// # Errors
    /// Names the first argument that is missing or wrong.
    pub fn parse(rest: &[OsString]) -> Result<Self, ArgumentError> {
        let value = |name: &'static str| {
            let mut pairs = rest.chunks_exact(2);
            let found = pairs.find(|pair| pair[0] == OsStr::new(name));
            found.map(|pair| pair[1].clone()).ok_or(ArgumentError(name))
        };
        let text = |name| value(name)?.into_string().map_err(|_| ArgumentError(name));
        fn number<T: std::str::FromStr>(name: &'static str, text: &str) -> Result<T, ArgumentError> {
            text.parse().map_err(|_| ArgumentError(name))
        }
        let root = PathBuf::from(value("--root")?);
        let runtime = PathBuf::from(value("--runtime")?);
        for (name, path) in [("--root", &root), ("--runtime", &runtime)] {
            if !path.is_absolute() {
                return Err(ArgumentError(name));
            }
        }
        Ok(Self {
            root,
            runtime,
            session: text("--session")?,
            episode: number("--episode", &text("--episode")?)?,
            generation: number("--generation", &text("--generation")?)?,
            spec_digest: text("--spec-digest")?,
            lock_fd: number("--lock-fd", &text("--lock-fd")?)?,
            report_fd: number("--report-fd", &text("--report-fd")?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::{ArgumentError, Arguments};

    fn arguments() -> Arguments {
        Arguments {
            root: OsString::from_vec(b"/r\xff".to_vec()).into(),
            runtime: "/run/x".into(),
            session: "abc".into(),
            episode: 2,
            generation: 7,
            spec_digest: "d".into(),
            lock_fd: 5,
            report_fd: 6,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let line = arguments().to_command_line();
        assert_eq!(&line[..2], ["ostler", "host"]);
        assert_eq!(Arguments::parse(&line[2..]), Ok(arguments()));
    }

    #[test]
    fn each_missing_or_wrong_argument_is_named() {
        let line = arguments().to_command_line();
        for at in (2..line.len()).step_by(2) {
            let mut short = line.clone();
            short.drain(at..at + 2);
            let error = Arguments::parse(&short[2..]).unwrap_err();
            assert!(error.to_string().contains(line[at].to_str().unwrap()), "{error}");
        }
        let relative = Arguments { root: "r".into(), ..arguments() };
        assert_eq!(Arguments::parse(&relative.to_command_line()[2..]), Err(ArgumentError("--root")));
    }
}
