//! Compares the rows of agents with their ledgers, and returns the proofs of the signed heads.

use serde_json::{Value, json};

use super::Executor;
use super::export::{Exported, READ_AGAIN};
use super::kernel::{no_agent, patience};
use crate::checkpoints::Signed;
use crate::store::{self, Broken, Unsigned, check_ledger, fold_on};
use vctx_core::error::{Code, Error, Result};
use vctx_core::ledger::note::{Head, HeadProof};
use vctx_core::memory::change::Part;
use vctx_core::memory::prompt::Prompt;
use vctx_core::proof::Differs;
use vctx_core::trust::{Actor, Principal, Scope, admit};

impl Executor {
    /// Reads all rows of an agent from one snapshot, and returns the differences from the agent's
    /// ledger and from signed heads of the ledger: the newest one of this server, and `head`, which
    /// the caller has kept. With `prove`, the answer contains the proof of the newest one.
    pub async fn ledger(
        &self,
        principal: &Principal,
        agent: &str,
        head: Option<Head>,
        prove: bool,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let proof = if prove { Some(json!(self.signed_head(&scope).await?)) } else { None };
        let transfers = self.transfers();
        let _permit = transfers.exports.permit()?;
        let now_ms = self.kernel.clock.unix_ms();
        let ttl = self.retention.recall_ttl_s();
        let before = ttl.map(|_| self.retention.before(now_ms)).unwrap_or_default();
        // The signed head is read before the snapshot, so the snapshot must contain its entry.
        let signed = self.kernel.checkpoints.as_ref().and_then(|all| all.signed(scope.key()));
        let own = signed.as_ref().and_then(|signed| signed.last().cloned());
        // Entries that are not signed yet must have a code.
        let coded_after = signed.as_ref().and_then(|signed| signed.head.as_ref());
        let coded_after = Some(coded_after.map_or(0, |head| head.n));
        let coded_after = coded_after.filter(|_| !self.kernel.rw.heads.is_lenient());
        let heads: Vec<Head> = own.into_iter().chain(head).collect();
        let read = || async {
            let (rw, now_s) = (&self.kernel.rw, now_ms / 1000);
            let folded = check_ledger(rw, &scope, now_s, &before, &heads, coded_after).await?;
            folded.ok_or_else(|| Broken::from(no_agent()))
        };
        let folded = transfers.read_again(READ_AGAIN, read).await?;
        let mut told = folded.told();
        told["agent"] = scope.agent().into();
        told["signed"] = signed.as_ref().map_or(Value::Null, signed_told);
        if let Some(proof) = proof {
            told["proof"] = proof;
        }
        Ok(told)
    }

    /// Notes in a new prompt of a change the newest checkpoint with a head of the agent.
    pub(super) fn mark_prompt(&self, scope: &Scope, parts: &mut [Part]) {
        let new = parts.iter_mut().find_map(|part| match part {
            Part::Prompt(row) if row["created_at"].is_string() => Some(row),
            _ => None,
        });
        let Some((row, checkpoints)) = new.zip(self.kernel.checkpoints.as_ref()) else { return };
        if let Some(mark) = checkpoints.mark(scope.key()) {
            row["checkpoint"] = (*mark).into();
        }
    }

    /// Returns how the checkpoint in a prompt differs from the checkpoint file, if it does.
    pub(super) async fn prompt_contradicts(&self, prompt: &Prompt) -> Result<Option<Differs>> {
        let Some((mark, checkpoints)) =
            prompt.checkpoint.clone().zip(self.kernel.checkpoints.clone())
        else {
            return Ok(None);
        };
        let differs = Differs {
            what: "the prompt names a checkpoint that the server did not sign".to_owned(),
            seq: None,
            expected: "a line of the checkpoint file".to_owned(),
            found: mark.clone(),
        };
        let text = "cannot read the checkpoints: check the server's data directory";
        let wrong = |error| Error::new(Code::Internal, text).caused_by(error);
        let compared = tokio::task::spawn_blocking(move || checkpoints.agrees(&mark)).await;
        let agrees = compared.map_err(std::io::Error::other).and_then(|agrees| agrees);
        Ok((agrees.map_err(wrong)? == Some(false)).then_some(differs))
    }

    /// Signs the newest head of an agent, and returns its proof; `None` if there is none.
    pub(super) async fn signed_head(&self, scope: &Scope) -> Result<Option<HeadProof>> {
        self.sign_head_of(scope).await?;
        self.cosigned_head(scope).await
    }

    /// Returns the proof of an agent's newest signed head, if possible with a cosignature.
    async fn cosigned_head(&self, scope: &Scope) -> Result<Option<HeadProof>> {
        if let Some(checkpoints) = &self.kernel.checkpoints {
            checkpoints.until_cosigned().await;
        }
        self.newest_head(scope)
    }

    fn newest_head(&self, scope: &Scope) -> Result<Option<HeadProof>> {
        let Some(checkpoints) = &self.kernel.checkpoints else { return Ok(None) };
        checkpoints.proof(scope.key()).map_err(|error| {
            let text = "cannot read the checkpoints: check the server's data directory";
            Error::new(Code::Internal, text).caused_by(error)
        })
    }

    /// Exports all rows of an agent to a file, with the newest signed head of the agent's ledger.
    /// Calls on this server write nothing between the signature and the snapshot, so that the file
    /// has no entry that is not signed.
    pub async fn export(&self, principal: &Principal, agent: &str) -> Result<Exported> {
        let scope = admit(principal, agent)?;
        let signed = std::sync::Mutex::new(None);
        let begin = || async {
            let turn = self.kernel.turns.take(scope.key());
            let turn = tokio::time::timeout_at(patience().into(), turn).await;
            let turn = turn.map_err(|_| Error::new(Code::Timeout, READ_AGAIN))??;
            self.sign_head_of(&scope).await?;
            *signed.lock().expect("no holder panics") = self.newest_head(&scope)?;
            Ok::<_, Error>(turn)
        };
        let transfers = self.transfers();
        let spooled = transfers.spooled_export(&scope, begin).await?;
        let mut proof = signed.into_inner().expect("no holder panics");
        if let Some(cosigned) = self.cosigned_head(&scope).await?
            && proof.as_ref().is_some_and(|proof| proof.head == cosigned.head)
        {
            proof = Some(cosigned);
        }
        if let Some((proof, checkpoints)) = proof.as_mut().zip(self.kernel.checkpoints.as_ref()) {
            proof.file = Some(checkpoints.file_note(&spooled.digest()));
        }
        transfers.export(&scope, spooled, proof.as_ref())
    }
}

impl Executor {
    /// Returns the head to sign for an agent, or `None` if its ledger does not continue the head
    /// that was signed last. Without such a head, the ledger is taken as it is.
    pub(super) async fn continued(
        &self,
        key: &str,
        signed: Option<Signed>,
        one: &Unsigned,
    ) -> Result<Option<Head>> {
        let signed = match signed.and_then(|signed| signed.last().cloned()) {
            None => return Ok(Some(one.after.clone())),
            Some(signed) if one.whole && signed == one.before => {
                return Ok(Some(one.after.clone()));
            }
            Some(signed) => signed,
        };
        // Another server, or this one before a restart, has written entries in between.
        let scope = scope_of(key)?;
        let strict = !self.kernel.rw.heads.is_lenient();
        let rw = &self.kernel.rw;
        let folded = self.kernel.patiently(|| fold_on(rw, &scope, &signed, strict)).await?;
        match folded {
            Some(head) if head.n >= one.after.n => Ok(Some(head)),
            // An agent that has just been removed has no entries.
            _ if self
                .kernel
                .patiently(|| store::load(&self.kernel.ro, &scope, &[]))
                .await?
                .core
                .is_none() =>
            {
                Ok(Some(signed))
            }
            _ => Ok(None),
        }
    }
}

pub(super) fn scope_of(key: &str) -> Result<Scope> {
    let (tenant, agent) = key.split_once(':').unwrap_or(("", key));
    let actor = Actor { uid: 0, pid: 0, label: None };
    admit(&Principal { actor, tenant: tenant.to_owned(), called: None }, agent)
}

pub(super) fn signed_told(signed: &Signed) -> Value {
    let head = signed.head.as_ref();
    json!({"entries": head.map(|head| head.n), "head": head.map(|head| &head.hash),
        "at": signed.at, "checkpoint": signed.number})
}
