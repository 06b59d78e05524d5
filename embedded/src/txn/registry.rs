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
    standing: Standing,
}

/// All stream transactions of the engine.
pub struct Registry {
    entries: Mutex<HashMap<u64, Entry>>,
    idle: Duration,
    lock_wait: Duration,
    size_bytes_max: u64,
}

/// A stream transaction in use; giving it back restarts its idle clock.
pub struct Lent {
    stream: Arc<Stream>,
}

const COMMITTED: &str = "committed";
const ABORTED: &str = "aborted";

impl Registry {
    /// No transactions yet; milliseconds and bytes as in the engine's options.
    pub(crate) fn new(idle_ms: u64, lock_wait_ms: u64, size_bytes_max: u64) -> Self {
        Self {
            entries: Mutex::default(),
            idle: Duration::from_millis(idle_ms),
            lock_wait: Duration::from_millis(lock_wait_ms),
            size_bytes_max,
        }
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
                .min(self.size_bytes_max),
            wait_for_sync: settings.wait_for_sync,
            one_request: false,
            locked_outside: false,
        };
        let transaction = engine.begin_with(db, declared, beginning)?;
        let id = engine.next_id();
        let use_ = Mutex::new(Use { busy: false, idle_since: Instant::now() });
        let stream = Arc::new(Stream { transaction, use_, returned: Condvar::new() });
        let entry = Entry {
            database: db.to_owned(),
            user: user.to_owned(),
            standing: Standing::Running(stream),
        };
        self.entries.lock().expect("only moves inside").insert(id, entry);
        Ok(id)
    }

    /// Lends one to an operation; 1655 if it is not the caller's, 1654 if it is over, 28 if it stays busy.
    pub fn lend(&self, id: u64, db: &str, user: &str) -> Result<Lent> {
        match self.find(id, db, user)? {
            Ok(stream) => self.lend_stream(id, db, user, stream, self.lock_wait),
            Err(ABORTED) => {
                Err(Error::new(Code::TransactionAborted, format!("transaction {id} was aborted")))
            }
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

    /// Commits; again is fine. 1653 after an abort. Should the write fail, the transaction is aborted.
    pub fn commit(&self, id: u64, db: &str, user: &str) -> Result<()> {
        match self.find(id, db, user)? {
            Err(COMMITTED) => Ok(()),
            Err(_) => Err(finished(id, ABORTED)),
            Ok(stream) => {
                let lent = self.lend_stream(
                    id,
                    db,
                    user,
                    stream,
                    Duration::from_millis(STREAM_FINISH_WAIT_MS),
                )?;
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
                lent.abort();
                self.end(id, ABORTED);
                Ok(())
            }
        }
    }

    /// `running`, `committed` or `aborted`; 1655.
    pub fn status(&self, id: u64, db: &str, user: &str) -> Result<&'static str> {
        Ok(self.find(id, db, user)?.map_or_else(|over| over, |_| "running"))
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
        let mut entries = self.entries.lock().expect("only moves inside");
        let mut expired = Vec::new();
        entries.retain(|id, entry| match &entry.standing {
            Standing::Over(_, since) => since.elapsed() < self.idle,
            Standing::Running(stream) => {
                let mut use_ = stream.use_.lock().expect("only moves inside");
                if !use_.busy && use_.idle_since.elapsed() >= self.idle {
                    use_.busy = true;
                    expired.push((*id, stream.clone()));
                }
                true
            }
        });
        drop(entries);
        for (id, stream) in expired {
            tracing::info!(transaction = id, "an idle stream transaction was aborted");
            let lent = Lent { stream };
            lent.abort();
            self.end(id, ABORTED);
        }
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
