//! What every command gets: flags, environment, configuration, output, and the way to the broker under the command's one deadline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::Globals;
use super::duration;
use super::failure::Failure;
use super::output::Output;
use super::settings::{Flags, Places, Settings, SettingsError};
use crate::client::{Client, ClientOptions, Credential, ENSURE_WITHIN};
use crate::os::deadline::Deadline;
use crate::os::environment::Environment;
use crate::os::paths::{self, PathError, StateRoot};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::Key;

/// How long a plain call may take, the start of a broker included (contract section 4: ensure 10 s).
pub(crate) const CALL: Duration = Duration::from_secs(30);
/// How long a call may take that waits for a session to be ready: the start of a broker, and ready (section 4: 30 s), and some air.
pub(crate) const READY: Duration = Duration::from_secs(60);

/// The surroundings of one command.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) globals: Globals,
    pub(crate) environment: Environment,
    pub(crate) output: Output,
    /// The deadline that `--timeout` sets: one for all of the command.
    asked: Option<Deadline>,
}

impl Context {
    pub(crate) fn new(globals: Globals, environment: Environment) -> Self {
        let output = Output::new(globals.json, &environment);
        let asked = globals.timeout.map(Deadline::after);
        Context { globals, environment, output, asked }
    }

    /// Where the state root is; whether there is anything is not looked at.
    ///
    /// # Errors
    /// `invalid_input` if nothing says where.
    pub(crate) fn root_path(&self, attempt: &str) -> Result<PathBuf, Failure> {
        paths::root_path(self.globals.root.as_deref(), &self.environment).map_err(|error| {
            Failure::new(attempt, WireError::new(ErrorCode::InvalidInput, error.to_string()).reason("root"))
        })
    }

    /// The configuration files that count here.
    pub(crate) fn places(&self) -> Places {
        let root = paths::root_path(self.globals.root.as_deref(), &self.environment).ok();
        Places::new(&self.environment, root.as_deref())
    }

    /// The effective configuration.
    ///
    /// # Errors
    /// `invalid_input` with the first thing that is wrong with it.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let timeout = self.globals.timeout.map(duration::show);
        let flags = Flags { timeout: timeout.as_deref() };
        Settings::load(&self.places(), &self.environment, flags).map_err(|error| {
            // A file of a root that is not ours: whose it is says more than that it cannot be read.
            if let (SettingsError::Unreadable { .. }, Some(refused)) = (&error, self.refused_root()) {
                return Failure::new("use the state root", WireError::from(&refused));
            }
            let error = WireError::new(ErrorCode::InvalidInput, error.to_string()).reason("config");
            Failure::new("use the configuration", error.with("remedy", "ostler config validate"))
        })
    }

    /// Why the state root cannot serve this user, if it cannot.
    fn refused_root(&self) -> Option<PathError> {
        let path = paths::root_path(self.globals.root.as_deref(), &self.environment).ok()?;
        StateRoot::open(&path).err()
    }

    /// The deadline of something that usually needs so long: what `--timeout` or the configuration says goes before.
    ///
    /// # Errors
    /// As [`Context::settings`].
    pub(crate) fn deadline(&self, needed: Duration) -> Result<Deadline, Failure> {
        match self.asked {
            Some(asked) => Ok(asked),
            None => Ok(Deadline::after(self.settings()?.timeout().unwrap_or(needed))),
        }
    }

    /// The deadline of a command that goes on as long as what it follows: only a flag bounds it.
    pub(crate) fn unlimited(&self) -> Deadline {
        self.asked.unwrap_or_else(|| Deadline::after(Duration::MAX))
    }

    /// The deadline of a look at the broker, which a broken configuration must not keep an operator from.
    pub(crate) fn bounded(&self, needed: Duration) -> Deadline {
        self.asked.unwrap_or_else(|| Deadline::after(needed))
    }

    /// How to reach the broker of this root.
    ///
    /// # Errors
    /// As [`Context::root_path`].
    pub(crate) fn client_options(&self, attempt: &str, deadline: Deadline) -> Result<ClientOptions, Failure> {
        let options = self.options_of(self.root_path(attempt)?, deadline);
        // A deadline of the configuration bounds this too.
        Ok(ClientOptions { ensure_within: options.ensure_within.min(deadline.remaining()), ..options })
    }

    /// How to reach or start the broker of this root.
    pub(crate) fn options_of(&self, root: PathBuf, deadline: Deadline) -> ClientOptions {
        ClientOptions {
            no_start: self.globals.no_start,
            credential: self.credential(),
            environment: self.environment.clone(),
            // Whoever says how long it may take says it of the start of a broker too.
            ensure_within: self.globals.timeout.unwrap_or(ENSURE_WITHIN),
            ..ClientOptions::new(root, deadline)
        }
    }

    /// Inside a session its own credential counts, unless another root is meant than the session's.
    fn credential(&self) -> Credential {
        let is_own_root = match (self.globals.root.as_deref(), self.environment.get("OSTLER_ROOT")) {
            (None, _) => true,
            (Some(asked), Some(own)) => asked == Path::new(own),
            (Some(_), None) => false,
        };
        match self.environment.get("OSTLER_CREDENTIAL") {
            Some(path) if is_own_root => Credential::Session(path.into()),
            Some(_) | None => Credential::Owner,
        }
    }

    /// Whether the owner calls, and not a session.
    pub(crate) fn is_owner(&self) -> bool {
        self.credential() == Credential::Owner
    }

    /// The broker, found or started, for plain calls.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) fn broker(&self, attempt: impl Into<String>) -> Result<Broker, Failure> {
        self.broker_until(attempt, self.deadline(CALL)?)
    }

    /// The broker, found or started, for calls up to a deadline.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) fn broker_until(&self, attempt: impl Into<String>, deadline: Deadline) -> Result<Broker, Failure> {
        let attempt = attempt.into();
        let options = self.client_options(&attempt, deadline)?;
        match Client::connect_or_start(options) {
            Ok(client) => Ok(Broker { client, attempt, session: None }),
            Err(error) => Err(Failure::new(attempt, error)),
        }
    }

    /// One call to a broker that is there; none is started.
    ///
    /// # Errors
    /// `broker_unreachable` if there is none, and what it answers.
    pub(crate) fn ask<P: Serialize, R: DeserializeOwned>(
        &self,
        root: &StateRoot,
        method: Method,
        params: &P,
        deadline: Deadline,
    ) -> Result<R, WireError> {
        let options = ClientOptions { no_start: true, ..self.options_of(root.path().to_owned(), deadline) };
        Client::connect(options)?.call_as(method, params)
    }
}

/// The broker, and what it is being asked for, so that a failure can say it.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) client: Client,
    attempt: String,
    session: Option<String>,
}

impl Broker {
    /// The same, with all that is asked from now on being about this session.
    #[must_use]
    pub(crate) fn about(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    /// From now on this is tried, about this session, up to this deadline.
    pub(crate) fn begin(&mut self, attempt: String, session: &str, deadline: Deadline) {
        self.attempt = attempt;
        self.session = Some(session.to_owned());
        self.client.set_deadline(deadline);
    }

    /// A new key for an operation.
    pub(crate) fn fresh_key(&self) -> Key {
        self.client.new_key().parse().expect("a UUID is a key")
    }

    /// Calls a method that changes nothing.
    ///
    /// # Errors
    /// What the broker answers.
    pub(crate) fn call<R: DeserializeOwned>(&mut self, method: Method, params: &impl Serialize) -> Result<R, Failure> {
        self.client.call_as(method, params).map_err(|error| self.failure(error))
    }

    /// Calls a method that changes something under the key that is in the parameters.
    ///
    /// # Errors
    /// What the broker answers; the failure says what is known of the change.
    pub(crate) fn change<R: DeserializeOwned>(
        &mut self,
        method: Method,
        key: &Key,
        params: &impl Serialize,
    ) -> Result<R, Failure> {
        self.call(method, params).map_err(|failure| failure.mutating(key.as_str()))
    }

    /// This error, as a failure of what is being tried.
    pub(crate) fn failure(&self, error: WireError) -> Failure {
        let failure = Failure::new(self.attempt.clone(), error);
        match &self.session {
            Some(session) => failure.about(session),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_s_credential_counts_for_its_own_root_only() {
        let credential = |root: Option<&str>, variables: &[(&str, &str)]| {
            let globals = Globals { root: root.map(PathBuf::from), ..Globals::default() };
            Context::new(globals, Environment::of(variables.iter().copied())).credential()
        };
        let inside = [("OSTLER_ROOT", "/r"), ("OSTLER_CREDENTIAL", "/c")];
        assert_eq!(credential(None, &inside), Credential::Session("/c".into()));
        assert_eq!(credential(Some("/r"), &inside), Credential::Session("/c".into()));
        assert_eq!(credential(Some("/other"), &inside), Credential::Owner);
        assert_eq!(credential(None, &[("OSTLER_ROOT", "/r")]), Credential::Owner);
    }
}
