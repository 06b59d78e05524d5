//! What the engine is held against besides libraries: an echo over HTTP and a bare store on the same disk.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Fault;
use crate::child::Process;
use crate::client::Client;
use crate::load::Operation;

/// The echo as a process of its own.
pub(crate) fn echo(folder: &Path) -> Result<Process, Fault> {
    std::fs::create_dir_all(folder)?;
    let socket = folder.join("echo.sock");
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("echo").arg("--socket").arg(&socket);
    Process::start(command, folder, socket, |_| Ok(true))
}

/// Calls of the echo with a body.
pub(crate) fn echo_calls(socket: &Path, body: Vec<u8>) -> Result<Operation, Fault> {
    let mut client = Client::connect(socket)?;
    Ok(Box::new(move || {
        let begun = Instant::now();
        let answer = client.call("POST", "/echo", "", &body)?;
        let took = begun.elapsed();
        match (answer.status, answer.body.is_empty()) {
            (200, false) => Ok(took),
            (status, _) => Err(format!("the echo answered {status}").into()),
        }
    }))
}

/// A bare store with one key space.
pub(crate) struct BareStore {
    database: Database,
    keyspace: Keyspace,
    next: Arc<AtomicU64>,
}

impl BareStore {
    /// Opens a new one.
    pub(crate) fn open(folder: &Path) -> Result<Self, Fault> {
        let database = Database::builder(folder).manual_journal_persist(true).open()?;
        let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default)?;
        Ok(Self { database, keyspace, next: Arc::default() })
    }

    /// Inserts some records as one batch and waits for the disk.
    pub(crate) fn inserts(&self, records: Vec<Vec<u8>>) -> Operation {
        let (database, keyspace) = (self.database.clone(), self.keyspace.clone());
        let next = Arc::clone(&self.next);
        Box::new(move || {
            let begun = Instant::now();
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            for record in &records {
                let key = next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
                batch.insert(&keyspace, key, record.as_slice());
            }
            batch.commit()?;
            Ok(begun.elapsed())
        })
    }
}
