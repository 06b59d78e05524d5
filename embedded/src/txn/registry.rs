//! The registry of stream transactions. It lends each transaction to one operation at a time,
//! aborts idle transactions, and keeps the final status of ended transactions for a while.

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

/// Options for beginning a stream transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamSettings {
    /// Whether the commit of the stream transaction is synced to disk.
    pub wait_for_sync: bool,
    /// Maximum wait for the collection locks in milliseconds (ArangoDB's `lockTimeout`); `None`
    /// means 900 s, and 0 means no limit.
    pub lock_timeout_ms: Option<u64>,
    /// Maximum number of bytes that the transaction may write; `None` means the engine's limit, to
    /// which larger values are reduced.
    pub max_transaction_size: Option<u64>,
}

struct Stream {
    transaction: Transaction,
    use_: Mutex<Use>,
    returned: Condvar,
}

struct Use {
    busy: bool,
    /// Whether the transaction is being aborted. Its status is then `aborted` even before its locks
    /// are released.
    aborting: bool,
    /// Time at which the transaction's last operation ended.
    idle_since: Instant,
}

enum Standing {
    Running(Arc<Stream>),
    Over(&'static str, Instant),
}

struct RegistryEntry {
    database: String,
    user: String,
    /// Whether the transaction declared a collection for writing.
    writes: bool,
    standing: Standing,
}

/// All stream transactions of the engine.
pub struct Registry {
    entries: Mutex<HashMap<u64, RegistryEntry>>,
    settings: RegistrySettings,
}

/// Limits of stream transactions, from the engine's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegistrySettings {
    /// Milliseconds after which an unused stream transaction is aborted.
    pub(crate) idle_ms: u64,
    /// Milliseconds that an operation waits for another operation of the same stream transaction.
    pub(crate) lock_wait_ms: u64,
    /// Maximum number of bytes that one stream transaction may write.
    pub(crate) size_bytes_max: u64,
    /// Whether the commit of an expired stream transaction returns success, although the
    /// transaction is aborted.
    pub(crate) late_commit_lies: bool,
}

/// A stream transaction that an operation uses. Dropping the value ends the use and restarts the
/// idle time.
pub struct Lent {
    stream: Arc<Stream>,
}

const COMMITTED: &str = "committed";
const ABORTED: &str = "aborted";

impl Registry {
    /// Creates a registry without transactions.
    pub(crate) fn new(settings: RegistrySettings) -> Self {
        Self { entries: Mutex::default(), settings }
    }

    fn idle(&self) -> Duration {
        Duration::from_millis(self.settings.idle_ms)
    }

    /// Begins a stream transaction and returns its id. Returns error 1203 for an unknown
    /// collection, 18 if a collection stays locked, or 32 for too many open transactions.
    pub fn begin(
        &self,
        engine: &Engine,
        db: &str,
        user: &str,
        declared: &Declared,
        settings: StreamSettings,
    ) -> Result<u64> {
        let running = |entry: &&RegistryEntry| matches!(entry.standing, Standing::Running(_));
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
        let entry = RegistryEntry {
            database: db.to_owned(),
            user: user.to_owned(),
            writes: !declared.write.is_empty() || !declared.exclusive.is_empty(),
            standing: Standing::Running(stream),
        };
        self.entries.lock().expect("only moves inside").insert(id, entry);
        Ok(id)
    }

    /// Lends a stream transaction to an operation. Returns error 1655 if the transaction is unknown
    /// or belongs to another caller, 1654 if it is aborted, 1653 if it is committed, or 28 if it
    /// stays in use.
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
        // The transaction may have ended while this operation waited for it.
        match self.find(id, db, user)? {
            Ok(_) => Ok(lent),
            Err(_) => {
                Err(Error::new(Code::TransactionAborted, format!("transaction {id} is over")))
            }
        }
    }

    /// Commits a stream transaction; a repeated commit succeeds. A commit after an abort fails with
    /// error 1653. If writing fails, the transaction is aborted. A commit after the idle time
    /// aborts the transaction and fails with error 1654.
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

    /// Aborts a stream transaction; a repeated abort succeeds. An abort after a commit fails with
    /// error 1653.
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

    /// Returns the status of a stream transaction: `running`, `committed` or `aborted`. The status
    /// is also `aborted` if the idle time has passed. Returns error 1655 for an unknown
    /// transaction.
    pub fn status(&self, id: u64, db: &str, user: &str) -> Result<&'static str> {
        let running = |stream: Arc<Stream>| {
            if stream.is_aborting() || stream.is_expired(self.idle()) { ABORTED } else { "running" }
        };
        Ok(self.find(id, db, user)?.map_or_else(|over| over, running))
    }

    /// Aborts the user's running write transactions in all databases, except those in use
    /// (`DELETE …/write`).
    pub fn abort_writing(&self, user: &str) {
        let own = |entry: &RegistryEntry| entry.user == user && entry.writes;
        self.abort_all(|entry, _| own(entry));
    }

    /// Aborts the running transactions of a dropped database, except those in use.
    pub(crate) fn abort_all_in(&self, db: &str) {
        self.abort_all(|entry, _| entry.database == db);
    }

    /// Returns the caller's running transactions, sorted by id.
    pub fn list(&self, db: &str, user: &str) -> Vec<(u64, &'static str)> {
        let entries = self.entries.lock().expect("only moves inside");
        let own = |entry: &RegistryEntry| entry.database == db && entry.user == user;
        let running = entries
            .iter()
            .filter(|(_, entry)| own(entry) && matches!(entry.standing, Standing::Running(_)));
        let mut list: Vec<_> = running.map(|(id, _)| (*id, "running")).collect();
        list.sort_unstable();
        list
    }

    /// Aborts idle transactions, and removes the status of transactions that ended longer ago than
    /// the idle limit.
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

    /// Aborts the selected transactions that are not in use. Returns their ids.
    fn abort_all(&self, is_chosen: impl Fn(&RegistryEntry, &Use) -> bool) -> Vec<u64> {
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
    /// Aborts the transaction. Its status becomes `aborted` before its locks are released, as in
    /// arangod (`Manager::updateTransaction`).
    fn give_up(&self) {
        self.stream.use_.lock().expect("only moves inside").aborting = true;
        self.abort();
    }
}

impl Stream {
    fn is_aborting(&self) -> bool {
        self.use_.lock().expect("only moves inside").aborting
    }

    /// Whether the transaction has been unused for the idle time.
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
