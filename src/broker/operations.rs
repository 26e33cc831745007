//! Operations as callers look them up: those that the state keeps in full, and those that were let go, read back from the
//! ledger. A list shows what is kept in full.

use super::front::Front;
use super::reads::{Position, other_list, page_limit};
use super::recall::{self, accepting};
use super::refused::{as_seen_by, refused};
use super::render;
use crate::machine::{Event, Footprint, Key, Known, Operation, OperationId, Outcome, Recalled, Refusal, Scope};
use crate::rpc::error::WireError;
use crate::rpc::service::Caller;
use crate::rpc::wire::{
    Encoded, OperationGetParams, OperationGetResult, OperationListParams, OperationListResult, encode, encode_value,
};

use ostler_ledger::storage::Disk;
use std::sync::Arc;

impl Front {
    /// Reads operations back that were let go. Never fails: what cannot be read is said to be so.
    pub(super) async fn recall(&self, footprints: Vec<Footprint>) -> Vec<Recalled> {
        if footprints.is_empty() {
            return Vec::new();
        }
        let ids: Vec<_> = footprints.iter().map(Footprint::operation).collect();
        let ledger = self.ledger();
        let read = tokio::task::spawn_blocking(move || {
            footprints.iter().map(|footprint| recall::recall(&ledger, footprint)).collect()
        });
        read.await.unwrap_or_else(|_| ids.into_iter().map(Recalled::Unreadable).collect())
    }

    /// An operation by its id or by a key of the caller's own.
    ///
    /// # Errors
    /// [`Refusal::NoOperation`] if the caller has none such, or [`Refusal::Unreadable`].
    pub(super) async fn find_operation(&self, scope: &Scope, given: &str) -> Result<Arc<Operation>, Refusal> {
        let by_id = match OperationId::parse(given) {
            Ok(id) => self.by_id(id).await?,
            Err(_) => None,
        };
        let found = match (by_id, Key::parse(given)) {
            (None, Ok(key)) => self.by_key(scope, &key).await?,
            (found, _) => found,
        };
        let found = found.filter(|found| *scope == Scope::Owner || found.scope == *scope);
        found.ok_or_else(|| Refusal::NoOperation { given: given.chars().take(128).collect() })
    }

    async fn by_id(&self, id: OperationId) -> Result<Option<Arc<Operation>>, Refusal> {
        if let Some(here) = self.view.read().operations.get(&id) {
            return Ok(Some(Arc::clone(here)));
        }
        if id.0 == 0 || id.0 > self.view.head().seq {
            return Ok(None);
        }
        let ledger = self.ledger();
        let first = tokio::task::spawn_blocking(move || accepting(&ledger, id)).await.ok().flatten();
        let Some(Event::Accept { key, act, .. }) = first else { return Ok(None) };
        let scope = act.scope();
        let footprint = self.view.read().footprint(id, &scope, &key);
        self.read_back(footprint.into_iter().collect(), |operation| operation.id == id).await
    }

    async fn by_key(&self, scope: &Scope, key: &Key) -> Result<Option<Arc<Operation>>, Refusal> {
        let rows = match self.view.read().known(scope, key) {
            Known::Here(operation) => return Ok(Some(Arc::clone(operation))),
            Known::Perhaps(rows) => rows,
            Known::Nowhere => return Ok(None),
        };
        self.read_back(rows, |operation| operation.scope == *scope && operation.key == *key).await
    }

    async fn read_back(
        &self,
        rows: Vec<Footprint>,
        is_meant: impl Fn(&Operation) -> bool,
    ) -> Result<Option<Arc<Operation>>, Refusal> {
        let mut unreadable = None;
        for recalled in self.recall(rows).await {
            match recalled {
                Recalled::Read(operation) if is_meant(&operation) => return Ok(Some(operation)),
                Recalled::Read(_) => {}
                Recalled::Unreadable(operation) => unreadable = Some(operation),
            }
        }
        unreadable.map_or(Ok(None), |operation| Err(Refusal::Unreadable { operation }))
    }

    pub(super) fn ledger(&self) -> Disk {
        Disk::reading(self.root.join("ledger"))
    }

    /// `operation.get`.
    pub(super) async fn operation(&self, scope: &Scope, params: &OperationGetParams) -> Result<Encoded, WireError> {
        let found = self.find_operation(scope, &params.operation).await;
        let found = found.map_err(|refusal| as_seen_by(scope, refused(&refusal)))?;
        let mut document = serde_json::Map::new();
        if found.state == Outcome::Succeeded {
            let session = self.renderer.session_of(&self.view.read(), &found, true);
            document.extend(session.map(|session| ("session".to_owned(), encode_value(&session))));
        }
        let survivors = render::survivors(&found);
        if !survivors.is_empty() {
            document.insert("survivors".to_owned(), encode_value(&survivors));
        }
        let result = (!document.is_empty()).then_some(document);
        Ok(encode(&OperationGetResult { operation: render::operation(&found, false), result }))
    }

    /// `operation.list`.
    pub(super) fn operations(&self, caller: &Caller, params: OperationListParams) -> Result<Encoded, WireError> {
        let scope = &self.scope(caller);
        let limit = page_limit(params.limit)?;
        let state = self.view.read();
        let (before, session) = match &params.cursor {
            Some(cursor) => match self.position(caller, cursor)? {
                Position::Operations(before, session) => (Some(before), session),
                Position::Sessions(..) | Position::Messages(..) | Position::Reports(..) => return Err(other_list()),
            },
            None => {
                let named = params.session.as_deref().map(|given| Self::named(scope, &state, given)).transpose()?;
                (None, named.map(|session| session.id.clone()))
            }
        };
        // Newest first.
        let rows = state.operations.before(before.as_ref()).rev().map(|(_, found)| found).filter(|found| {
            (*scope == Scope::Owner || found.scope == *scope)
                && session.as_ref().is_none_or(|id| found.session.as_ref() == Some(id))
        });
        let page: Vec<_> = rows.take(limit + 1).cloned().collect();
        drop(state);
        let operations: Vec<_> = page.iter().take(limit).map(|found| render::operation(found, false)).collect();
        let last = page.get(limit.saturating_sub(1)).filter(|_| page.len() > limit);
        let next = last.map(|last| self.remember(caller, Position::Operations(last.id, session)));
        Ok(encode(&OperationListResult { operations, next }))
    }
}
