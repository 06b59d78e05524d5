//! Change feeds: reads the entries of an agent's ledger in order, each exactly once.

use tokio::sync::watch;

use super::executor::Executor;
use super::kernel::no_agent;
use crate::limits::{FEED_ROWS, FEEDS_PER_AGENT_MAX};
use crate::store::{self, FollowedEntry};
use vctx_core::error::{Code, Error, Result};
use vctx_core::ledger::note::Head;
use vctx_core::memory::event::in_present_form;
use vctx_core::memory::forget::tombstone_key;
use vctx_core::trust::{Principal, Scope, admit};

/// The change after which a feed begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// Number of the change; 0 before the first one.
    pub n: u64,
    /// Hash of the change, if the caller gives it.
    pub hash: Option<String>,
}

/// A feed of one agent.
#[derive(Debug)]
pub struct Feed {
    scope: Scope,
    /// The change that was read last; number 0 before the first one.
    pub at: Head,
    /// Number of the agent's newest change when the feed began.
    pub last: u64,
}

/// What a feed found.
#[derive(Debug)]
pub enum FeedLook {
    /// The next changes, in order; `is_full` says that there may be more.
    Changes {
        /// The changes.
        entries: Vec<FollowedEntry>,
        /// Whether the look has read as many changes as it may.
        is_full: bool,
    },
    /// The agent was forgotten.
    Forgotten,
    /// The agent is not in this database any more.
    Moved,
    /// The ledger does not continue the change that was read last, for example because the database
    /// was restored from a backup.
    Gap,
}

impl Executor {
    /// Begins a feed after the given change, or after the newest one. The signal changes when this
    /// server has changed the agent's memory.
    pub async fn feed(
        &self,
        principal: &Principal,
        agent: &str,
        after: Option<After>,
    ) -> Result<(Feed, watch::Receiver<()>)> {
        let scope = admit(principal, agent)?;
        let from = after.as_ref().map_or(1, |after| after.n.max(1));
        let found = self.kernel.read(|ro| store::followed(ro, &scope, from, 1)).await?;
        if !found.is_there {
            return Err(no_agent());
        }
        let before_all = || Head { n: 0, hash: String::new() };
        let last = found.last.unwrap_or_else(before_all);
        let first = found.entries.into_iter().next().map(|entry| entry.head);
        let at = match after {
            None => Some(last.clone()),
            Some(After { n: 0, .. }) => Some(before_all()),
            Some(After { n, hash }) => first
                .filter(|head| head.n == n && hash.as_ref().is_none_or(|hash| *hash == head.hash)),
        };
        let at = at.ok_or_else(|| {
            let text = "after: the agent has no such change any more: read the memory again, and follow its changes without `after`";
            Error::new(Code::ChangeUnknown, text).with("field", "after").with("last", last.n)
        })?;
        let news = self.kernel.rw.heads.follow(&scope, FEEDS_PER_AGENT_MAX).ok_or_else(|| {
            let text = format!("the agent has {FEEDS_PER_AGENT_MAX} change feeds on this server: end one, or retry later");
            Error::new(Code::Overloaded, text)
        })?;
        Ok((Feed { scope, at, last: last.n }, news))
    }

    /// Reads the next changes of a feed in one request.
    pub async fn look(&self, feed: &mut Feed) -> Result<FeedLook> {
        let (scope, at) = (&feed.scope, &feed.at);
        // The first entry is the one that was read last.
        let known = usize::from(at.n > 0);
        let limit = FEED_ROWS + known as u64;
        let found = self.kernel.read(|ro| store::followed(ro, scope, at.n.max(1), limit)).await?;
        if !found.is_there {
            let tomb = tombstone_key(scope.key());
            let row = self.kernel.read(|ro| store::forgetting(ro, scope, &tomb)).await?;
            return Ok(if row.is_some() { FeedLook::Forgotten } else { FeedLook::Moved });
        }
        let mut entries = found.entries;
        let is_full = entries.len() as u64 == limit;
        let begins = known == 0 || entries.first().is_some_and(|entry| entry.head == *at);
        if !begins {
            return Ok(FeedLook::Gap);
        }
        entries.drain(..known);
        let numbers = entries.iter().map(|entry| entry.head.n);
        if !numbers.eq((at.n + 1..).take(entries.len())) {
            return Ok(FeedLook::Gap);
        }
        if let Some(entry) = entries.last() {
            feed.at = entry.head.clone();
        }
        entries.iter_mut().for_each(|entry| in_present_form(&mut entry.event));
        Ok(FeedLook::Changes { entries, is_full })
    }
}
