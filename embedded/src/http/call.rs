//! One authorised request inside one database, and the checks that handlers share.

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
/// Header that puts a request into a stream transaction.
pub(super) const TRANSACTION_HEADER: &str = "x-arango-trx-id";

/// What a handler gets.
pub(super) struct Call<'a> {
    pub(super) front: &'a Front,
    pub(super) request: &'a Request,
    pub(super) caller: Caller,
    pub(super) database: Arc<Database>,
}

/// A transaction of this request alone, or a stream transaction lent to it.
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
    /// Commits what belongs to this request alone; a stream transaction goes on.
    pub(super) fn finish(&self, wait_for_sync: bool) -> Result<()> {
        match self {
            Self::Own(transaction) => transaction.commit(wait_for_sync),
            Self::Lent(_) => Ok(()),
        }
    }

    /// Gives up what belongs to this request alone; in a stream transaction only the writes since `savepoint`.
    pub(super) fn undo(&self, savepoint: usize) {
        match self {
            Self::Own(transaction) => transaction.abort(),
            Self::Lent(lent) => lent.rollback_to(savepoint),
        }
    }
}

impl Call<'_> {
    /// The engine.
    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.front.engine
    }

    /// The database's name.
    pub(super) fn db(&self) -> &str {
        &self.database.name
    }

    /// 403/11 unless the caller has that level on the database.
    pub(super) fn need_database(&self, level: Level) -> Result<()> {
        if self.caller.database(self.db()) >= level {
            return Ok(());
        }
        Err(Error::of(Code::Forbidden))
    }

    /// 403/11 unless the caller has that level on the collection.
    pub(super) fn need_collection(&self, name: &str, level: Level) -> Result<()> {
        if self.caller.collection(self.db(), name) >= level {
            return Ok(());
        }
        let word = if level == Level::Write { "write" } else { "read" };
        let message = format!("insufficient permissions to {word} collection '{name}'");
        Err(Error::new(Code::Forbidden, message))
    }

    /// Only in `_system` (403/1230).
    pub(super) fn need_system(&self) -> Result<()> {
        if self.db() == SYSTEM { Ok(()) } else { Err(Error::of(Code::UseSystemDatabase)) }
    }

    /// Only for those who administrate the server: `rw` on `_system`.
    pub(super) fn need_admin(&self) -> Result<()> {
        if self.is_admin() { Ok(()) } else { Err(Error::of(Code::Forbidden)) }
    }

    /// Whether the caller has `rw` on `_system`.
    pub(super) fn is_admin(&self) -> bool {
        self.caller.database(SYSTEM) == Level::Write
    }

    /// A collection by name or number (1203).
    pub(super) fn collection(&self, name: &str) -> Result<Arc<Collection>> {
        let all = &self.database.collections;
        let by_number = || {
            let id: u64 = name.parse().ok()?;
            all.values().find(|collection| collection.id == id)
        };
        all.get(name).or_else(by_number).cloned().ok_or_else(|| not_found(name))
    }

    /// A collection that the caller may use at that level.
    pub(super) fn permitted(&self, name: &str, level: Level) -> Result<Arc<Collection>> {
        let collection = self.collection(name)?;
        self.need_collection(&collection.name, level)?;
        Ok(collection)
    }

    /// Whether the caller may read every collection of the database, so that reads need not be announced.
    pub(super) fn reads_everything(&self) -> bool {
        let closed = |name: &String| self.caller.collection(self.db(), name) < Level::Read;
        self.caller.reads_everything(self.db())
            || !self.database.collections.keys().any(|name| name != "_users" && closed(name))
    }

    /// The number of the stream transaction in the request's header (400/10 if it is none).
    pub(super) fn stream(&self) -> Result<Option<u64>> {
        self.request.header(TRANSACTION_HEADER).map(stream_id).transpose()
    }

    /// The request's stream transaction, or one of its own that declares `declared`.
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

    /// `work` that reads one collection.
    pub(super) fn reading(&self, collection: &Collection) -> Result<Work> {
        let declared = Declared { read: vec![collection.name.clone()], ..Declared::default() };
        self.work(&declared, false)
    }

    /// `work` that writes one collection.
    pub(super) fn writing(&self, collection: &Collection, wait_for_sync: bool) -> Result<Work> {
        let declared = Declared { write: vec![collection.name.clone()], ..Declared::default() };
        self.work(&declared, wait_for_sync)
    }

    /// `waitForSync` of the request or of the collection.
    pub(super) fn wait_for_sync(&self, collection: &Collection) -> bool {
        self.request.flag("waitForSync").unwrap_or(false) || collection.wait_for_sync
    }
}

/// 1203 with the recorded text.
pub(super) fn not_found(name: &str) -> Error {
    Error::new(Code::DataSourceNotFound, format!("collection or view not found: {name}"))
}

/// The number in a transaction's id.
pub(super) fn stream_id(text: &str) -> Result<u64> {
    let bad = || Error::new(Code::BadParameter, "bad transaction ID");
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    text.parse().ok().filter(|id| *id > 0).ok_or_else(bad)
}
