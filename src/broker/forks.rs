//! `session.fork`: a new session that runs what another one runs, in the same place, with the same environment and labels. It has its own id, files, queue
//! and history, and remembers whose copy it is.
//!
//! Promise: as a spawn, it happens once for its key, or not at all.

use super::asked;
use super::changes::{Wanted, internal};
use super::front::Front;
use crate::host::client::load_spec;
use crate::host::spec::Spec;
use crate::machine::{self, Action, Digest, SessionId, Status};
use crate::rpc::error::WireError;
use crate::rpc::service::Caller;
use crate::rpc::wire::{Encoded, ForkParams};
use std::collections::BTreeMap;

impl Front {
    /// What the copy runs is read from its source's files; whether the source is still there when it counts, and whether the key is known, is the turn's to
    /// say.
    pub(super) async fn fork(&self, caller: &Caller, digest: Digest, params: ForkParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let name = params.name.as_deref().map(asked::name).transpose()?;
        let target = self.target(&change.scope, &params.session)?;
        let source = target.as_ref().ok().and_then(|id| self.view.read().sessions.get(id).cloned());
        let (spec, labels, readiness) = match &source {
            Some(of) if of.status != Status::Deleted => (self.spec_of(&of.id).await?, of.labels.clone(), of.readiness),
            Some(_) | None => (None, BTreeMap::new(), None),
        };
        let adapter = spec.as_ref().map_or(machine::Adapter::Inbox, asked::adapter);
        let action = Action::Spawn { prepared: None, name, labels, adapter, readiness, source: Some(target) };
        let settled = self.settle(&change, action, Wanted { spec, texts: &[] }).await?;
        self.with_output(&settled, self.started(&settled)).await
    }

    /// What a session runs; none if it is being removed just now.
    async fn spec_of(&self, session: &SessionId) -> Result<Option<Spec>, WireError> {
        let (root, name) = (self.root.clone(), session.to_string());
        let loaded = tokio::task::spawn_blocking(move || load_spec(&root, &name)).await;
        match loaded.map_err(|error| internal(&error.to_string()))? {
            Ok((spec, _)) => Ok(Some(spec)),
            Err(_) if self.is_going(session) => Ok(None),
            Err(error) => Err(super::files::unprepared(&error)),
        }
    }
}
