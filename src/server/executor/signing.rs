//! Signs the heads of the ledgers that the server knows, and looks for those that it does not know:
//! entries without a signature when a server ended.
//!
//! The lock for signing is only held for one checkpoint at a time, so a caller who wants the proof
//! of one agent waits neither for the search nor for the heads of many other agents.

use std::sync::Arc;

use super::Executor;
use super::ledger::scope_of;
use crate::checkpoints::{Checkpoints, HEADS_AT_ONCE, Signed};
use crate::store::{self, TakenHeads, Unsigned};
use vctx_base::clock::iso8601;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::ledger::note::{Head, SignedHead};
use vctx_core::trust::Scope;

/// Number of agents whose last entries one request of the search loads.
const SEARCHED_AGENTS: usize = 500;
/// Number of agents that are gone whose tombstones one request of the search loads.
const SEALED_AGENTS: usize = 100;
/// Number of ledgers whose entries are read for one checkpoint.
const READ_AT_ONCE: usize = 100;

/// How far a server has looked for unsigned entries since it started.
#[derive(Debug, Default)]
pub(super) struct Search {
    stage: Stage,
    /// The last agent at which this stage has looked.
    after: String,
    /// The last agent whose entries were read for a checkpoint. If reading takes too long and is
    /// interrupted, the next checkpoint begins after this agent.
    read: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Looks at the tombstones of agents that are gone.
    #[default]
    Gone,
    /// Looks at the last entries of the other agents.
    There,
    /// Has looked at all agents.
    Through,
}

impl Search {
    fn has_seen(&self, key: &str) -> bool {
        match self.stage {
            Stage::Gone => false,
            Stage::There => key <= self.after.as_str(),
            Stage::Through => true,
        }
    }

    /// Goes on after the agents at which one request has looked, or to the next stage if these were
    /// fewer than one request can look at.
    fn go_on(&mut self, last: Option<&String>, is_full: bool) {
        match (last, is_full, self.stage) {
            (Some(last), true, _) => self.after.clone_from(last),
            (_, _, Stage::Gone) => (self.stage, self.after) = (Stage::There, String::new()),
            _ => self.stage = Stage::Through,
        }
    }
}

/// The ledgers whose entries may be read before their heads are signed.
enum Reads<'s> {
    /// Those whose turn it is.
    Next,
    /// The one of this agent.
    Only(&'s Scope),
}

impl Executor {
    /// Signs the heads of all ledgers that this server has written since the last call, and of some
    /// ledgers whose entries must be read first. Returns whether there is nothing more to sign or
    /// to search. A ledger that contradicts its last signed head is reported, and gets no further
    /// signature.
    pub async fn sign_known(&self) -> Result<bool> {
        let Some(checkpoints) = &self.kernel.checkpoints else { return Ok(true) };
        let is_through = self.searched(|search| search.stage == Stage::Through);
        let unread = self.sign_next(checkpoints).await?;
        if !is_through || unread > 0 {
            return Ok(false);
        }
        if self.kernel.rw.heads.is_lenient() {
            self.end_leniency(checkpoints).await?;
        }
        Ok(true)
    }

    /// Notes on disk that the entries of earlier program versions are signed. From now on, each
    /// entry must have a code.
    async fn end_leniency(&self, checkpoints: &Arc<Checkpoints>) -> Result<()> {
        if let Some(secret) = self.kernel.rw.heads.secret().cloned() {
            let (all, database) = (Arc::clone(checkpoints), self.database_name().to_owned());
            let noting = tokio::task::spawn_blocking(move || all.note_searched(&database, &secret));
            let noted = noting.await.map_err(std::io::Error::other).and_then(|noted| noted);
            noted.map_err(|error| {
                let text = "cannot write beside the checkpoints: check the server's data directory";
                Error::new(Code::Internal, text).caused_by(error)
            })?;
        }
        self.kernel.rw.heads.set_lenient(false);
        Ok(())
    }

    /// Signs the heads that this server knows. If the search has not come to the tombstones of
    /// earlier program versions yet, gives them their codes.
    pub async fn sign_heads(&self) -> Result<()> {
        let Some(checkpoints) = &self.kernel.checkpoints else { return Ok(()) };
        let is_early = self.searched(|search| search.stage == Stage::Gone);
        if is_early && self.kernel.rw.heads.is_lenient() {
            for some in checkpoints.gone().chunks(SEALED_AGENTS) {
                self.seal_earlier(some).await?;
            }
        }
        self.sign_next(checkpoints).await.map(drop)
    }

    /// Signs the head of one agent, even if the search has not come to the agent yet, and the heads
    /// of other agents that can be signed at once.
    pub(super) async fn sign_head_of(&self, scope: &Scope) -> Result<()> {
        let Some(checkpoints) = &self.kernel.checkpoints else { return Ok(()) };
        if !self.searched(|search| search.has_seen(scope.key())) {
            let signed = checkpoints.signed(scope.key()).and_then(|signed| signed.head);
            if let Some(signed) = signed {
                let (rw, scopes) = (&self.kernel.rw, std::slice::from_ref(scope));
                let last = self.kernel.patiently(|| store::last_heads(rw, scopes)).await?;
                let signed = vec![(scope.key().to_owned(), signed)];
                self.note_unsigned(checkpoints, signed, last).await?;
            }
        }
        let _signing = checkpoints.signing.lock().await;
        self.sign_found(checkpoints, Reads::Only(scope)).await.map(drop)
    }

    async fn sign_next(&self, checkpoints: &Arc<Checkpoints>) -> Result<usize> {
        let _signing = checkpoints.signing.lock().await;
        self.sign_found(checkpoints, Reads::Next).await
    }

    fn searched<T>(&self, with: impl FnOnce(&mut Search) -> T) -> T {
        with(&mut self.kernel.search.lock().expect("no holder panics"))
    }

    /// Signs the heads that continue the signed ones as the server knows, and then some whose
    /// entries must be read first. Returns the number of those that are left.
    async fn sign_found(&self, checkpoints: &Arc<Checkpoints>, reads: Reads<'_>) -> Result<usize> {
        let mut taken = self.kernel.rw.heads.take();
        let (mut unread, known): (Vec<String>, Vec<String>) = taken
            .left()
            .iter()
            .map(|(key, one)| (key, one.as_ref()))
            .fold((Vec::new(), Vec::new()), |(mut unread, mut known), (key, one)| {
                let must_read = one.is_some_and(|one| is_unread(checkpoints.signed(key), one));
                if must_read { &mut unread } else { &mut known }.push(key.clone());
                (unread, known)
            });
        for some in known.chunks(HEADS_AT_ONCE) {
            self.sign_some(checkpoints, some, &mut taken, |_| {}).await?;
        }
        let count = unread.len();
        match reads {
            Reads::Only(scope) => {
                unread.retain(|key| key == scope.key());
                self.sign_some(checkpoints, &unread, &mut taken, |_| {}).await?;
            }
            Reads::Next => {
                let read = self.searched(|search| search.read.clone());
                let next = unread.partition_point(|key| *key <= read);
                unread.rotate_left(next);
                unread.truncate(READ_AT_ONCE);
                let note = |key: &str| self.searched(|search| key.clone_into(&mut search.read));
                self.sign_some(checkpoints, &unread, &mut taken, note).await?;
            }
        }
        Ok(count - unread.len())
    }

    /// Signs the heads of some agents with one checkpoint. Calls `note` before each agent. If the
    /// database fails, the heads before the failure are signed.
    async fn sign_some(
        &self,
        checkpoints: &Arc<Checkpoints>,
        keys: &[String],
        taken: &mut TakenHeads<'_>,
        note: impl Fn(&str),
    ) -> Result<()> {
        let (mut heads, mut failed) = (Vec::with_capacity(keys.len()), Ok(()));
        for key in keys {
            note(key);
            let Some(one) = taken.left().get(key) else { continue };
            let Some(one) = one else {
                heads.push(SignedHead { agent: key.clone(), head: None });
                continue;
            };
            if checkpoints.is_broken(key) {
                taken.remove(key);
                continue;
            }
            match self.continued(key, checkpoints.signed(key), one).await {
                Ok(Some(head)) => heads.push(SignedHead { agent: key.clone(), head: Some(head) }),
                Ok(None) => {
                    taken.remove(key);
                    checkpoints.note_broken(key);
                    metrics::counter!(metric::LEDGER_BROKEN).increment(1);
                    tracing::error!(
                        agent = key,
                        "the ledger does not continue the last signed entry: run `vctx verify`"
                    );
                }
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        if heads.is_empty() {
            return failed;
        }
        let keys: Vec<String> = heads.iter().map(|head| head.agent.clone()).collect();
        let at = iso8601(self.kernel.clock.unix_ms());
        let checkpoints = Arc::clone(checkpoints);
        let signing = tokio::task::spawn_blocking(move || checkpoints.sign(heads, &at));
        let signed = signing.await.map_err(|error| {
            Error::new(Code::Internal, "signing ended without a result").caused_by(error)
        })?;
        signed.map_err(|error| {
            let text = "cannot write the checkpoints: check the server's data directory";
            Error::new(Code::Internal, text).caused_by(error)
        })?;
        keys.iter().for_each(|key| taken.remove(key));
        failed
    }

    /// Looks at the next agents: finds the ledgers that do not end with the signed head, which are
    /// those whose last entries were not signed before the server ended, and those that were cut
    /// meanwhile. If entries of earlier program versions may be unsigned, first gives tombstones of
    /// these versions their codes. Returns `false` if the database does not answer at the moment.
    /// May be interrupted at any point. Only the job for signing calls this.
    pub async fn search_on(&self) -> Result<bool> {
        let Some(checkpoints) = &self.kernel.checkpoints else { return Ok(true) };
        let (stage, after) = self.searched(|search| (search.stage, search.after.clone()));
        let (last, is_full) = match stage {
            Stage::Gone if self.kernel.rw.heads.is_lenient() => {
                let keys = checkpoints.gone_after(&after, SEALED_AGENTS);
                self.seal_earlier(&keys).await?;
                (keys.last().cloned(), keys.len() == SEALED_AGENTS)
            }
            Stage::Gone | Stage::Through => (None, false),
            Stage::There => {
                let heads = checkpoints.heads_after(&after, SEARCHED_AGENTS);
                let last = heads.last().map(|(key, _)| key.clone());
                let is_full = heads.len() == SEARCHED_AGENTS;
                let scopes = scopes_of(heads.iter().map(|(key, _)| key))?;
                // The job tries again after it has signed what the server knows by then.
                let found = match store::last_heads(&self.kernel.rw, &scopes).await {
                    Err(fault) if fault.passing() => return Ok(false),
                    found => found?,
                };
                self.note_unsigned(checkpoints, heads, found).await?;
                (last, is_full)
            }
        };
        self.searched(|search| search.go_on(last.as_ref(), is_full));
        Ok(true)
    }

    /// Notes those of the agents whose ledgers do not end with the given signed heads. `last` are
    /// the last entries of the ledgers, in order of the agents.
    async fn note_unsigned(
        &self,
        checkpoints: &Checkpoints,
        signed: Vec<(String, Head)>,
        last: Vec<Option<Head>>,
    ) -> Result<()> {
        // What was signed meanwhile is newer than the answer: the agent may be gone.
        let _signing = checkpoints.signing.lock().await;
        for ((key, signed), last) in signed.into_iter().zip(last) {
            let Some(last) = last.filter(|last| *last != signed) else { continue };
            let now = checkpoints.signed(&key).and_then(|signed| signed.head);
            if now.as_ref() == Some(&signed) {
                self.kernel.rw.heads.found(&scope_of(&key)?, signed, last);
            }
        }
        Ok(())
    }

    async fn seal_earlier(&self, keys: &[String]) -> Result<()> {
        let scopes = scopes_of(keys)?;
        let last = |key: &String| {
            let signed = self.kernel.checkpoints.as_ref().and_then(|all| all.signed(key));
            signed.and_then(|signed| signed.last().cloned())
        };
        let signed: Vec<_> = scopes.into_iter().zip(keys.iter().map(last)).collect();
        self.kernel.patiently(|| store::seal_earlier(&self.kernel.rw, &signed)).await
    }
}

fn scopes_of<'k>(keys: impl IntoIterator<Item = &'k String>) -> Result<Vec<Scope>> {
    keys.into_iter().map(|key| scope_of(key)).collect()
}

/// Returns whether the entries since the last signed one must be read before a head is signed.
fn is_unread(signed: Option<Signed>, one: &Unsigned) -> bool {
    let signed = signed.as_ref().and_then(Signed::last);
    signed.is_some_and(|signed| !one.whole || *signed != one.before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_keeps_its_position_until_it_has_looked_at_all_agents() {
        let (ada, bob) = ("ada".to_owned(), "bob".to_owned());
        let mut search = Search::default();
        search.go_on(Some(&bob), true);
        assert_eq!((search.stage, search.after.as_str()), (Stage::Gone, "bob"));
        assert!(!search.has_seen("ada"), "only a tombstone was looked at");
        search.go_on(None, false);
        assert_eq!((search.stage, search.after.as_str()), (Stage::There, ""));
        search.go_on(Some(&ada), true);
        assert!(search.has_seen("ada") && !search.has_seen("bob"));
        search.go_on(Some(&bob), false);
        assert!(search.stage == Stage::Through && search.has_seen("eve"));
    }
}
