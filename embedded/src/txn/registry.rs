//! Stream transactions: lent to one operation at a time, aborted when idle, remembered for a while when over.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::options::Declared;
use super::transaction::{Beginning, Transaction};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::limits::{STREAM_FINISH_WAIT_MS, STREAMS_MAX, TOMBSTONES_MAX};

/// What a begin asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamSettings {
    /// Whether the commit is synced.
    pub wait_for_sync: bool,
    /// Longest wait for the collections; None: 900 s, 0: for ever (ArangoDB's `lockTimeout`).
    pub lock_timeout_ms: Option<u64>,
    /// Bytes of writes; None: the engine's own limit, which is also the most.
    pub max_transaction_size: Option<u64>,
}

struct Stream {
    transaction: Transaction,
    use_: Mutex<Use>,
    returned: Condvar,
}

struct Use {
    busy: bool,
    /// Whether it is being aborted: it is told as aborted before its locks are free.
    aborting: bool,
    /// When the last operation ended.
    idle_since: Instant,
}

enum Standing {
    Running(Arc<Stream>),
    Over(&'static str, Instant),
}

struct Entry {
    database: String,
    user: String,
    /// Whether a collection was declared for writing.
    writes: bool,
    standing: Standing,
}

/// All stream transactions of the engine.
pub struct Registry {
    entries: Mutex<HashMap<u64, Entry>>,
    settings: RegistrySettings,
}

/// How stream transactions are kept: milliseconds and bytes as in the engine's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegistrySettings {
    /// Idle time after which one is aborted.
    pub(crate) idle_ms: u64,
    /// Wait of an operation for another one of the same transaction.
    pub(crate) lock_wait_ms: u64,
    /// Most bytes that one may write.
    pub(crate) size_bytes_max: u64,
    /// Whether the commit of an expired one is answered as if it had worked.
    pub(crate) late_commit_lies: bool,
}

/// A stream transaction in use; giving it back restarts its idle clock.
pub struct Lent {
    stream: Arc<Stream>,
}

const COMMITTED: &str = "committed";
const ABORTED: &str = "aborted";

impl Registry {
    /// No transactions yet.
    pub(crate) fn new(settings: RegistrySettings) -> Self {
        Self { entries: Mutex::default(), settings }
    }

    fn idle(&self) -> Duration {
        Duration::from_millis(self.settings.idle_ms)
    }

    /// Begins one and answers its number; 1203 for an unknown collection, 18 when a collection stays locked, 32 when
    /// too many are open.
    pub fn begin(
        &self,
        engine: &Engine,
        db: &str,
        user: &str,
        declared: &Declared,
        settings: StreamSettings,
    ) -> Result<u64> {
        let running = |entry: &&Entry| matches!(entry.standing, Standing::Running(_));
        if self.entries.lock().expect("only moves inside").values().filter(running).count()
            >= STREAMS_MAX
        {
            let text = format!("{STREAMS_MAX} stream transactions are open already");
            return Err(Error::new(Code::ResourceLimit, text));
        }
        let beginning = Beginning {
            lock_wait: match settings.lock_timeout_ms {
                None => Some(Duration::from_millis(crate::limits::COLLECTION_LOCK_WAIT_MS)),
                Some(0) => None,
                Some(wait) => Some(Duration::from_millis(wait)),
            },
            writes_bytes_max: settings
                .max_transaction_size
                .unwrap_or(u64::MAX)
                .min(self.settings.size_bytes_max),
            wait_for_sync: settings.wait_for_sync,
            one_request: false,
            locked_outside: false,
        };
        let transaction = engine.begin_with(db, declared, beginning)?;
        let id = engine.next_id();
        let use_ = Mutex::new(Use { busy: false, aborting: false, idle_since: Instant::now() });
        let stream = Arc::new(Stream { transaction, use_, returned: Condvar::new() });
        let entry = Entry {
            database: db.to_owned(),
            user: user.to_owned(),
            writes: !declared.write.is_empty() || !declared.exclusive.is_empty(),
            standing: Standing::Running(stream),
        };
        self.entries.lock().expect("only moves inside").insert(id, entry);
        Ok(id)
    }

    /// Lends one to an operation; 1655 if it is not the caller's, 1654 if it is over, 28 if it stays busy.
    pub fn lend(&self, id: u64, db: &str, user: &str) -> Result<Lent> {
        match self.find(id, db, user)? {
            Ok(stream) if stream.is_expired(self.idle()) => Err(aborted(id)),
            Ok(stream) => {
                let wait = Duration::from_millis(self.settings.lock_wait_ms);
                self.lend_stream(id, db, user, stream, wait)
            }
            Err(ABORTED) => Err(aborted(id)),
            Err(_) => Err(Error::new(
                Code::TransactionDisallowedOperation,
                format!("transaction {id} is committed already"),
            )),
        }
    }

    fn lend_stream(
        &self,
        id: u64,
        db: &str,
        user: &str,
        stream: Arc<Stream>,
        wait: Duration,
    ) -> Result<Lent> {
        let deadline = Instant::now() + wait;
        let mut use_ = stream.use_.lock().expect("only moves inside");
        while use_.busy {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(
                    Code::Locked,
                    format!("cannot access transaction {id}: it is in use"),
                ));
            }
            use_ = stream.returned.wait_timeout(use_, left).expect("only moves inside").0;
        }
        use_.busy = true;
        drop(use_);
        let lent = Lent { stream };
        // It may have ended while we waited.
        match self.find(id, db, user)? {
            Ok(_) => Ok(lent),
            Err(_) => {
                Err(Error::new(Code::TransactionAborted, format!("transaction {id} is over")))
            }
        }
    }

    /// Commits; again is fine. 1653 after an abort. Should the write fail, the transaction is aborted. One that has been
    /// idle too long is aborted although nobody had come to do so yet: 1654.
    pub fn commit(&self, id: u64, db: &str, user: &str) -> Result<()> {
        match self.find(id, db, user)? {
            Err(COMMITTED) => Ok(()),
            Err(_) => Err(finished(id, ABORTED)),
            Ok(stream) => {
                let expired = stream.is_expired(self.idle());
                let wait = Duration::from_millis(STREAM_FINISH_WAIT_MS);
                let lent = self.lend_stream(id, db, user, stream, wait)?;
                if expired {
                    lent.give_up();
                    self.end(id, ABORTED);
                    return if self.settings.late_commit_lies { Ok(()) } else { Err(aborted(id)) };
                }
                let result = lent.commit(false);
                self.end(id, if result.is_ok() { COMMITTED } else { ABORTED });
                result
            }
        }
    }

    /// Aborts; again is fine. 1653 after a commit.
    pub fn abort(&self, id: u64, db: &str, user: &str) -> Result<()> {
        match self.find(id, db, user)? {
            Err(ABORTED) => Ok(()),
            Err(_) => Err(finished(id, COMMITTED)),
            Ok(stream) => {
                let lent = self.lend_stream(
                    id,
                    db,
                    user,
                    stream,
                    Duration::from_millis(STREAM_FINISH_WAIT_MS),
                )?;
                lent.give_up();
                self.end(id, ABORTED);
                Ok(())
            }
        }
    }

    /// `running`, `committed` or `aborted`, which an expired one is before anybody has aborted it; 1655.
    pub fn status(&self, id: u64, db: &str, user: &str) -> Result<&'static str> {
        let running = |stream: Arc<Stream>| {
            if stream.is_aborting() || stream.is_expired(self.idle()) { ABORTED } else { "running" }
        };
        Ok(self.find(id, db, user)?.map_or_else(|over| over, running))
    }

    /// Aborts the user's running ones of all databases that may write; those in use go on (`DELETE …/write`).
    pub fn abort_writing(&self, user: &str) {
        let own = |entry: &Entry| entry.user == user && entry.writes;
        self.abort_all(|entry, _| own(entry));
    }

    /// Aborts the running ones of a database that goes; those in use end by themselves.
    pub(crate) fn abort_all_in(&self, db: &str) {
        self.abort_all(|entry, _| entry.database == db);
    }

    /// The caller's running ones, by number.
    pub fn list(&self, db: &str, user: &str) -> Vec<(u64, &'static str)> {
        let entries = self.entries.lock().expect("only moves inside");
        let own = |entry: &Entry| entry.database == db && entry.user == user;
        let running = entries
            .iter()
            .filter(|(_, entry)| own(entry) && matches!(entry.standing, Standing::Running(_)));
        let mut list: Vec<_> = running.map(|(id, _)| (*id, "running")).collect();
        list.sort_unstable();
        list
    }

    /// Aborts those that have been idle too long and forgets those that ended long ago.
    pub fn sweep(&self) {
        let idle = self.idle();
        self.entries.lock().expect("only moves inside").retain(|_, entry| match &entry.standing {
            Standing::Over(_, since) => since.elapsed() < idle,
            Standing::Running(_) => true,
        });
        for id in self.abort_all(|_, use_| use_.idle_since.elapsed() >= idle) {
            tracing::info!(transaction = id, "an idle stream transaction was aborted");
        }
    }

    /// Aborts what is chosen and not in use; answers the numbers.
    fn abort_all(&self, is_chosen: impl Fn(&Entry, &Use) -> bool) -> Vec<u64> {
        let entries = self.entries.lock().expect("only moves inside");
        let mut chosen = Vec::new();
        for (id, entry) in entries.iter() {
            let Standing::Running(stream) = &entry.standing else { continue };
            let mut use_ = stream.use_.lock().expect("only moves inside");
            if !use_.busy && is_chosen(entry, &use_) {
                use_.busy = true;
                chosen.push((*id, stream.clone()));
            }
        }
        drop(entries);
        let numbers = chosen.iter().map(|(id, _)| *id).collect();
        for (id, stream) in chosen {
            let lent = Lent { stream };
            lent.give_up();
            self.end(id, ABORTED);
        }
        numbers
    }

    fn find(
        &self,
        id: u64,
        db: &str,
        user: &str,
    ) -> Result<std::result::Result<Arc<Stream>, &'static str>> {
        let entries = self.entries.lock().expect("only moves inside");
        let entry = entries.get(&id).filter(|entry| entry.database == db && entry.user == user);
        let missing =
            || Error::new(Code::TransactionNotFound, format!("transaction {id} not found"));
        Ok(match &entry.ok_or_else(missing)?.standing {
            Standing::Running(stream) => Ok(stream.clone()),
            Standing::Over(how, _) => Err(how),
        })
    }

    fn end(&self, id: u64, how: &'static str) {
        let mut entries = self.entries.lock().expect("only moves inside");
        if let Some(entry) = entries.get_mut(&id) {
            entry.standing = Standing::Over(how, Instant::now());
        }
        let over = entries.iter().filter_map(|(id, entry)| match entry.standing {
            Standing::Over(_, since) => Some((since, *id)),
            Standing::Running(_) => None,
        });
        let over: Vec<_> = over.collect();
        if over.len() > TOMBSTONES_MAX
            && let Some((_, oldest)) = over.into_iter().min()
        {
            entries.remove(&oldest);
        }
    }
}

impl Lent {
    /// Aborts it. Whoever meets its locks free is told that it is aborted, as by arangod, whose manager notes the end first (`Manager::updateTransaction`).
    fn give_up(&self) {
        self.stream.use_.lock().expect("only moves inside").aborting = true;
        self.abort();
    }
}

impl Stream {
    fn is_aborting(&self) -> bool {
        self.use_.lock().expect("only moves inside").aborting
    }

    /// Whether nobody has used it for longer than it may be idle.
    fn is_expired(&self, idle: Duration) -> bool {
        let use_ = self.use_.lock().expect("only moves inside");
        !use_.busy && use_.idle_since.elapsed() >= idle
    }
}

fn aborted(id: u64) -> Error {
    Error::new(Code::TransactionAborted, format!("transaction {id} was aborted"))
}

fn finished(id: u64, how: &str) -> Error {
    Error::new(Code::TransactionDisallowedOperation, format!("transaction {id} was {how} already"))
}

impl Deref for Lent {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.stream.transaction
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut use_ = self.stream.use_.lock().expect("only moves inside");
        use_.busy = false;
        use_.idle_since = Instant::now();
        self.stream.returned.notify_one();
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.transaction.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn whose_locks_are_free_is_told_as_aborted_before_anybody_noted_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(directory.path(), Options::default()).unwrap();
        let streams = engine.streams();
        let begun = streams.begin(
            &engine,
            "_system",
            "root",
            &Declared::default(),
            StreamSettings::default(),
        );
        let id = begun.unwrap();
        let lent = streams.lend(id, "_system", "root").unwrap();
        assert_eq!(streams.status(id, "_system", "root").unwrap(), "running");
        lent.give_up();
        assert_eq!(streams.status(id, "_system", "root").unwrap(), ABORTED);
    }
}
