//! One authorised request in one database, with checks that all handlers use.

use std::ops::Deref;
use std::sync::Arc;

use crate::Engine;
use crate::error::{Code, Error, Result};
use crate::schema::{Collection, Database};
use crate::txn::{Declared, Lent, Transaction};

use super::auth::{Caller, Level};
use super::front::Front;
use super::request::Request;

/// Name of the database from which the server is administered.
pub(super) const SYSTEM: &str = "_system";
/// Header with the id of the stream transaction in which a request runs.
pub(super) const TRANSACTION_HEADER: &str = "x-arango-trx-id";

/// One request with its caller and database. Every handler gets this value as an argument.
pub(super) struct Call<'a> {
    pub(super) front: &'a Front,
    pub(super) request: &'a Request,
    pub(super) caller: Caller,
    pub(super) database: Arc<Database>,
}

/// The transaction of a request: its own, or a stream transaction that is lent to the request.
pub(super) enum Work {
    Own(Box<Transaction>),
    Lent(Lent),
}

impl Deref for Work {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        match self {
            Self::Own(transaction) => transaction,
            Self::Lent(lent) => lent,
        }
    }
}

impl Work {
    /// Commits the request's own transaction; a stream transaction stays open.
    pub(super) fn finish(&self, wait_for_sync: bool) -> Result<()> {
        match self {
            Self::Own(transaction) => transaction.commit(wait_for_sync),
            Self::Lent(_) => Ok(()),
        }
    }

    /// Aborts the request's own transaction; in a stream transaction, undoes only the writes since
    /// `savepoint`.
    pub(super) fn undo(&self, savepoint: usize) {
        match self {
            Self::Own(transaction) => transaction.abort(),
            Self::Lent(lent) => lent.rollback_to(savepoint),
        }
    }
}

impl Call<'_> {
    /// The engine that answers the request.
    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.front.engine
    }

    /// The name of the request's database.
    pub(super) fn db(&self) -> &str {
        &self.database.name
    }

    /// Returns error 403/11 unless the caller has at least this level on the database.
    pub(super) fn need_database(&self, level: Level) -> Result<()> {
        if self.caller.database(self.db()) >= level {
            return Ok(());
        }
        Err(Error::of(Code::Forbidden))
    }

    /// Returns error 403/11 unless the caller has at least this level on the collection.
    pub(super) fn need_collection(&self, name: &str, level: Level) -> Result<()> {
        if self.caller.collection(self.db(), name) >= level {
            return Ok(());
        }
        let word = if level == Level::Write { "write" } else { "read" };
        let message = format!("insufficient permissions to {word} collection '{name}'");
        Err(Error::new(Code::Forbidden, message))
    }

    /// Returns error 403/1230 for a request to a database other than `_system`.
    pub(super) fn need_system(&self) -> Result<()> {
        if self.db() == SYSTEM { Ok(()) } else { Err(Error::of(Code::UseSystemDatabase)) }
    }

    /// Returns error 403/11 unless the caller administers the server (`rw` on `_system`).
    pub(super) fn need_admin(&self) -> Result<()> {
        if self.is_admin() { Ok(()) } else { Err(Error::of(Code::Forbidden)) }
    }

    /// Whether the caller has `rw` on `_system`.
    pub(super) fn is_admin(&self) -> bool {
        self.caller.database(SYSTEM) == Level::Write
    }

    /// Returns a collection by its name or id, or error 1203.
    pub(super) fn collection(&self, name: &str) -> Result<Arc<Collection>> {
        let all = &self.database.collections;
        let by_number = || {
            let id: u64 = name.parse().ok()?;
            all.values().find(|collection| collection.id == id)
        };
        all.get(name).or_else(by_number).cloned().ok_or_else(|| not_found(name))
    }

    /// Returns a collection by its name or id, or an error unless the caller has at least this
    /// level on it.
    pub(super) fn permitted(&self, name: &str, level: Level) -> Result<Arc<Collection>> {
        let collection = self.collection(name)?;
        self.need_collection(&collection.name, level)?;
        Ok(collection)
    }

    /// Whether the caller may read every collection of the database. Only then may a transaction
    /// read undeclared collections.
    pub(super) fn reads_everything(&self) -> bool {
        let closed = |name: &String| self.caller.collection(self.db(), name) < Level::Read;
        self.caller.reads_everything(self.db())
            || !self.database.collections.keys().any(|name| name != "_users" && closed(name))
    }

    /// The id of the stream transaction in the request's header; error 400/10 for an invalid id.
    pub(super) fn stream(&self) -> Result<Option<u64>> {
        self.request.header(TRANSACTION_HEADER).map(stream_id).transpose()
    }

    /// Returns the request's stream transaction, or begins a transaction with the declared
    /// collections.
    pub(super) fn work(&self, declared: &Declared, wait_for_sync: bool) -> Result<Work> {
        match self.stream()? {
            Some(id) => {
                let lent = self.engine().streams().lend(id, self.db(), self.caller.name())?;
                Ok(Work::Lent(lent))
            }
            None => {
                let own = self.engine().begin(self.db(), declared, wait_for_sync)?;
                Ok(Work::Own(Box::new(own)))
            }
        }
    }

    /// Returns the transaction to read one collection, as [`Self::work`] does.
    pub(super) fn reading(&self, collection: &Collection) -> Result<Work> {
        let declared = Declared { read: vec![collection.name.clone()], ..Declared::default() };
        self.work(&declared, false)
    }

    /// Returns the transaction to write one collection, as [`Self::work`] does.
    pub(super) fn writing(&self, collection: &Collection, wait_for_sync: bool) -> Result<Work> {
        let declared = Declared { write: vec![collection.name.clone()], ..Declared::default() };
        self.work(&declared, wait_for_sync)
    }

    /// Whether the request or the collection sets `waitForSync`.
    pub(super) fn wait_for_sync(&self, collection: &Collection) -> bool {
        self.request.flag("waitForSync").unwrap_or(false) || collection.wait_for_sync
    }
}

/// Returns error 1203 with ArangoDB's text.
pub(super) fn not_found(name: &str) -> Error {
    Error::new(Code::DataSourceNotFound, format!("collection or view not found: {name}"))
}

/// Parses the id of a stream transaction.
pub(super) fn stream_id(text: &str) -> Result<u64> {
    let bad = || Error::new(Code::BadParameter, "bad transaction ID");
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    text.parse().ok().filter(|id| *id > 0).ok_or_else(bad)
}
