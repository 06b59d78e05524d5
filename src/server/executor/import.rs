//! Imports a file as an agent.
//!
//! Checks the whole file, writes invisible rows, reads them back, and only then publishes the agent
//! (makes it visible to readers).

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::export::{Transfers, disk};
use super::quota::check_blocks;
use super::read::forgotten;
use super::working_file::WorkingFile;
use crate::executor::limits::{ATTEMPTS_MAX, IMPORT_LEASE_MS};
use crate::limits::{EXPORT_PAGE_BYTES, EXPORT_PAGE_ROWS};
use crate::store::{self, Batch, Broken, Dump, ImportMark, ImportWriter, Row, SCHEMA};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::EXPORT_LINE_BYTES_MAX;
use vctx_core::memory::archive::VectorSetting;
use vctx_core::memory::export::{
    Checker, ImportPlan, Owner, RowKind, Tally, VectorKind, line_of, parted, settled,
};
use vctx_core::trust::{Principal, Scope, admit};

/// Maximum length of the first line of an import, in bytes. It names the agent and the kind of its
/// vectors.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// The file of an import while it is received.
pub struct Incoming {
    file: WorkingFile,
    /// The first line as far as it was received; `None` once this line was checked.
    header: Option<Vec<u8>>,
    permit: OwnedSemaphorePermit,
}

impl Incoming {
    /// Appends received bytes to the file. Refuses a file that is no export as soon as its first
    /// line was received, so that such a file takes no room.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(mut header) = self.header.take() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            header.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if header.len() > HEADER_BYTES_MAX {
                let text = format!("the first line has more than {HEADER_BYTES_MAX} bytes");
                return Err(refused(text));
            }
            match end {
                None => self.header = Some(header),
                Some(_) => {
                    let line = String::from_utf8(header)
                        .map_err(|_| refused("the file is not UTF-8".into()))?;
                    Checker::new(SCHEMA).line(&line).map_err(refused)?;
                }
            }
        }
        self.file.write(bytes)
    }
}

/// Reads the lines of a file, up to a maximum length.
pub(super) struct FileLines {
    file: BufReader<File>,
    line: String,
}

impl FileLines {
    pub(super) fn of(mut file: File) -> Result<Self> {
        file.rewind()
            .map_err(|e| disk(e, "the server cannot read its copy of the uploaded file"))?;
        Ok(Self { file: BufReader::new(file), line: String::new() })
    }

    /// Returns the next line without the line break, or `None` after the last line.
    pub(super) fn next(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        let most = EXPORT_LINE_BYTES_MAX as u64 + 1;
        let read = self.file.by_ref().take(most).read_line(&mut self.line);
        match read {
            Ok(0) => Ok(None),
            Ok(_) if self.line.ends_with('\n') => Ok(Some(&self.line[..self.line.len() - 1])),
            Ok(bytes) if bytes as u64 == most => {
                Err(refused(format!("a line has more than {EXPORT_LINE_BYTES_MAX} bytes")))
            }
            Ok(_) => Err(refused("the file was cut off within a line".into())),
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                Err(refused("the file is not UTF-8".into()))
            }
            Err(e) => Err(disk(e, "the server cannot read its copy of the uploaded file")),
        }
    }
}

/// Returns the error for a file that is refused.
pub(super) fn refused(why: String) -> Error {
    Error::argument("file", format!("{why}: nothing was imported"))
}

/// The task of an import: a checked file, and the owner of the imported rows.
pub(super) struct Order<'a> {
    pub(super) scope: &'a Scope,
    pub(super) checked: &'a ImportPlan,
    pub(super) owner: Owner,
}

/// The rows that the import writes in its last transaction.
pub(super) struct Last {
    pub(super) core: Row,
    pub(super) first: Row,
    pub(super) schedules: Vec<Row>,
    /// Number of the vector setting; `None` for an agent without documents.
    pub(super) number: Option<u64>,
}

impl Order<'_> {
    pub(super) fn last(&self) -> Result<Last> {
        let of = |part, row: &Row| settled(part, row.clone(), &self.owner).map_err(refused);
        let schedules: Result<Vec<Row>> =
            self.checked.schedules.iter().map(|row| of(RowKind::Schedules, row)).collect();
        Ok(Last {
            core: of(RowKind::Core, &self.checked.core)?,
            first: of(RowKind::Versions, &self.checked.first)?,
            schedules: schedules?,
            number: self.checked.header.vector.as_ref().map(|_| self.owner.number),
        })
    }
}

impl Transfers<'_> {
    /// Begins to receive the file for an import.
    pub fn incoming(&self) -> Result<Incoming> {
        let permit = self.exports.permit()?;
        let file = WorkingFile::new(self.exports.file()?);
        Ok(Incoming { file, header: Some(Vec::new()), permit })
    }

    /// Creates an agent from a file. A repeated import of the same file changes nothing, and its
    /// answer says so.
    pub async fn import(
        &self,
        principal: &Principal,
        agent: &str,
        incoming: Incoming,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let Incoming { file, permit: _permit, .. } = incoming;
        let (file, _) = file.finish()?;
        let checked =
            checked(&file, "the server cannot read its copy of the uploaded file").await?;
        if let Some(told) = self.imported_before(&scope, &checked).await? {
            return Ok(told);
        }
        check_blocks(&checked.core, self.kernel.blocks_bytes_max)?;
        self.directory.register(self.kernel, &scope).await?;
        let owner = self.owner_of(&scope, &checked).await?;
        let order = Order { scope: &scope, checked: &checked, owner };
        let by = self.kernel.ids.key();
        let writer = ImportWriter { moving: false, ..self.writer(&scope, &by) };
        let mark = self.take_place(&writer, &order).await?;
        match self.written(&writer, &order, &mark, file).await {
            Ok(rev) => {
                self.archive.nudge();
                tracing::info!(agent = scope.key(), rows = order.checked.rows, "imported");
                Ok(answer(&order, true, &rev))
            }
            Err(error) => {
                // Readers cannot see the rows written so far. If some rows cannot be removed now,
                // the next import under the agent's name removes them.
                if let Err(fault) = self.take_back(&writer).await {
                    tracing::warn!(%fault, agent = scope.key(), "rows of an import are left for the next import to remove");
                }
                Err(error)
            }
        }
    }

    /// Returns the answer if an agent with exactly the file's content already exists; fails if the
    /// existing agent differs.
    async fn imported_before(&self, scope: &Scope, checked: &ImportPlan) -> Result<Option<Value>> {
        let mut dump =
            self.kernel.patiently(|| Dump::begin(&self.kernel.ro, &self.kernel.rw, scope)).await?;
        let found = compared(&mut dump, checked).await;
        dump.end().await;
        match found? {
            None => Ok(None),
            Some(true) => Ok(Some(answer_of(scope, checked, false, ""))),
            Some(false) => Err(Error::new(
                Code::AgentExists,
                "an agent of that name exists, and it differs from the file: import under another name",
            )),
        }
    }

    /// Returns the owner of the imported rows. The file's vectors must fit the database's vector
    /// setting. If the database has no vector setting, the setting is made from the file.
    pub(super) async fn owner_of(&self, scope: &Scope, checked: &ImportPlan) -> Result<Owner> {
        let mut owner = Owner {
            scope: scope.key().to_owned(),
            tenant: scope.tenant().to_owned(),
            sealed_as: checked.header.sealed_as.clone(),
            vector: checked.header.vector.clone(),
            number: 1,
        };
        let Some(kind) = &checked.header.vector else { return Ok(owner) };
        let setting = match self.kernel.read(store::vector_setting).await? {
            Some(setting) => setting,
            None => self.first_setting(kind).await?,
        };
        if store::kind_of(&setting) != *kind {
            let text = "the vectors in this database are of another kind than those in the file: first change either kind with `vctx reindex`";
            return Err(Error::new(Code::VectorSettingMismatch, text)
                .with("stored", setting.described())
                .with("given", json!(kind)));
        }
        if setting.next.is_some() {
            let text =
                "a reindex is under way in this database: import again when the reindex is done";
            return Err(Error::new(Code::Conflict, text));
        }
        owner.number = setting.number;
        Ok(owner)
    }

    async fn first_setting(&self, kind: &VectorKind) -> Result<VectorSetting> {
        let made_by = vctx_core::memory::Fingerprint {
            model_id: kind.model_id.clone(),
            embedding_version: kind.embedding_version.clone(),
            dimension: kind.dimension,
        };
        let now = vctx_base::clock::iso8601(self.kernel.clock.unix_ms());
        let setting = VectorSetting::of(&made_by, kind.metric, 1, now);
        self.kernel.patiently(|| store::write_setting(&self.kernel.rw, &setting)).await?;
        let written = self.kernel.read(store::vector_setting).await?;
        written.ok_or_else(|| Error::new(Code::StoreRefused, "the vector setting was not kept"))
    }

    /// Reserves the agent's name for this import, and first removes the rows of another,
    /// interrupted import. Returns the marker row, which says where the import continues.
    pub(super) async fn take_place(
        &self,
        writer: &ImportWriter<'_>,
        order: &Order<'_>,
    ) -> Result<ImportMark> {
        // The rows of an import depend only on the file's content and on the number of the vector
        // setting. `state` contains a hash of the content, and this number.
        let state = &format!("{}/{}", order.checked.state, order.owner.number);
        let mut races = 0;
        for _ in 0..ATTEMPTS_MAX {
            let now_ms = self.kernel.clock.unix_ms();
            let begun = writer.begin(state, now_ms, now_ms + IMPORT_LEASE_MS).await;
            let begun = match begun {
                Ok(begun) => begun,
                Err(fault) if fault.raced() && races < ATTEMPTS_MAX => {
                    races += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            };
            if begun.forgotten && !writer.moving {
                return Err(forgotten());
            }
            if begun.there {
                let text = "an agent of that name was made meanwhile: import under another name";
                return Err(Error::new(Code::AgentExists, text));
            }
            if !begun.taken {
                let text = "another import of that name is under way: wait until it is done";
                return Err(Error::new(Code::Conflict, text));
            }
            match begun.held {
                Some(held) if held.state != *state => {
                    self.take_back(writer).await.map_err(Error::from)?;
                }
                Some(held) => return Ok(ImportMark { by: writer.by.to_owned(), ..held }),
                None => {
                    return Ok(ImportMark {
                        by: writer.by.to_owned(),
                        state: state.clone(),
                        ..ImportMark::default()
                    });
                }
            }
        }
        Err(Error::new(Code::Conflict, "other imports took that name each time: try again"))
    }

    /// Removes the rows of an import, and releases the agent's name.
    pub(super) async fn take_back(&self, writer: &ImportWriter<'_>) -> store::Result<()> {
        let until = || self.kernel.clock.unix_ms() + IMPORT_LEASE_MS;
        let mut answers = self.own_answers(writer.scope).await?;
        loop {
            let some = answers.split_off(answers.len().saturating_sub(EXPORT_PAGE_ROWS.1 as usize));
            match writer.trim(&some, until()).await? {
                // The loop ends, since each round except the last removes rows.
                Some(gone) if gone > 0 || !answers.is_empty() => {}
                Some(_) => return writer.drop_place().await,
                None => return Ok(()),
            }
        }
    }

    async fn own_answers(&self, scope: &Scope) -> store::Result<Vec<String>> {
        let mut dump = Dump::begin(&self.kernel.ro, &self.kernel.rw, scope).await?;
        let keys = dump.answer_keys().await;
        dump.end().await;
        match keys {
            Ok(keys) => Ok(keys),
            Err(Broken::Store(fault)) => Err(fault),
            Err(Broken::Other(_)) => Ok(Vec::new()),
        }
    }

    /// Releases a name that an interrupted import reserved; returns `false` while an import under
    /// this name is still running.
    pub(super) async fn freed(&self, scope: &Scope) -> Result<bool> {
        let by = self.kernel.ids.key();
        let writer = ImportWriter { moving: false, ..self.writer(scope, &by) };
        let now_ms = self.kernel.clock.unix_ms();
        let begun = writer.begin("", now_ms, now_ms + IMPORT_LEASE_MS).await?;
        if !begun.taken {
            return Ok(begun.there);
        }
        self.take_back(&writer).await?;
        Ok(true)
    }

    /// Writes all rows of the import, and publishes the agent.
    async fn written(
        &self,
        writer: &ImportWriter<'_>,
        order: &Order<'_>,
        mark: &ImportMark,
        file: File,
    ) -> Result<String> {
        let rows = self.laid(writer, order, mark, file, u64::MAX).await?;
        self.finished(writer, order, rows).await
    }

    /// Writes all rows that the import's marker does not count as written yet, reads all rows back,
    /// and returns their number. Entries of the ledger up to the number `imported` get the code of
    /// an import.
    pub(super) async fn laid(
        &self,
        writer: &ImportWriter<'_>,
        order: &Order<'_>,
        mark: &ImportMark,
        file: File,
        imported: u64,
    ) -> Result<u64> {
        let mut lines = FileLines::of(file)?;
        // The file's first line, its header, was already checked.
        lines.next()?;
        let (mut seen, mut written) = (0, mark.rows);
        let (mut batch, mut rows, mut bytes) = (Batch::new(), 0, 0);
        while let Some(line) = lines.next()? {
            if !line.starts_with("{\"in\":") {
                break;
            }
            let (part, row) = parted(line).map_err(refused)?;
            if held_back(part, &row) {
                continue;
            }
            seen += 1;
            if seen <= mark.rows {
                continue;
            }
            bytes += line.len();
            rows += 1;
            let mut row = settled(part, row, &order.owner).map_err(refused)?;
            if part == RowKind::Events {
                self.kernel.rw.heads.recode(&mut row, imported);
            }
            batch.entry(part).or_default().push(row);
            if rows >= EXPORT_PAGE_ROWS.1 || bytes >= EXPORT_PAGE_BYTES {
                self.write(writer, std::mem::take(&mut batch), written).await?;
                written += rows;
                (rows, bytes) = (0, 0);
            }
        }
        if rows > 0 {
            self.write(writer, batch, written).await?;
            written += rows;
        }
        tokio::select! {
            read = self.read_back(order) => read?,
            never = self.renewed(writer, written) => match never {},
        }
        Ok(written)
    }

    async fn write(&self, writer: &ImportWriter<'_>, batch: Batch, before: u64) -> Result<()> {
        let until_ms = self.kernel.clock.unix_ms() + IMPORT_LEASE_MS;
        let write = || async {
            match writer.write(batch.clone(), before, until_ms).await {
                Err(fault) if fault.is_duplicate() => Ok(None),
                written => written.map(Some),
            }
        };
        match self.kernel.contended(write).await? {
            Some(true) => Ok(()),
            Some(false) => {
                let text = "another import replaced this import: try again after its end";
                Err(Error::new(Code::Conflict, text))
            }
            None => Err(rows_exist()),
        }
    }

    /// The rows read back must equal the file's rows in every digit.
    async fn read_back(&self, order: &Order<'_>) -> Result<()> {
        let text = "the database ended the reading transaction each time: send the file again";
        let read = self.read_again(text, || async {
            let begun = || Dump::begin(&self.kernel.ro, &self.kernel.rw, order.scope);
            let mut dump = self.kernel.patiently(begun).await?;
            let read = sums(&mut dump, order).await;
            dump.end().await;
            read
        });
        if read.await?.state() == order.checked.state {
            return Ok(());
        }
        let text = "the database does not hold the written rows: nothing was imported";
        Err(Error::new(Code::StoreRefused, text))
    }

    /// Renews the import's lease while the file is read but no rows are written.
    async fn renewed(&self, writer: &ImportWriter<'_>, written: u64) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(IMPORT_LEASE_MS / 3)).await;
            let until_ms = self.kernel.clock.unix_ms() + IMPORT_LEASE_MS;
            // If another import has taken the agent's name, the last write of this import fails. A
            // failed renewal is therefore only logged.
            if let Err(fault) = writer.write(Batch::new(), written, until_ms).await {
                tracing::debug!(%fault, "the lease of an import was not renewed");
            }
        }
    }

    pub(super) async fn finished(
        &self,
        writer: &ImportWriter<'_>,
        order: &Order<'_>,
        rows: u64,
    ) -> Result<String> {
        let Last { core, first, schedules, number } = order.last()?;
        let finish = || async {
            match writer.finish(&core, &first, &schedules, rows, number).await {
                Err(fault) if fault.is_duplicate() => Ok(None),
                done => done.map(Some),
            }
        };
        let done = self.kernel.contended(finish).await?.ok_or_else(rows_exist)?;
        if let Some(rev) = done.rev {
            return Ok(rev);
        }
        // An earlier attempt published the agent, but its answer was lost.
        if done.there && done.mark.is_none() {
            return Ok(String::new());
        }
        let text = match done.serves {
            true => "another import replaced this import: try again after its end",
            false => "the vector setting has changed since the import began: import again",
        };
        Err(Error::new(Code::Conflict, text))
    }
}

/// Returns whether a row is written only by the import's last transaction.
fn held_back(part: RowKind, row: &Row) -> bool {
    match part {
        RowKind::Core | RowKind::Schedules => true,
        RowKind::Versions => row.get("version").and_then(Value::as_u64) == Some(1),
        RowKind::Messages
        | RowKind::Recall
        | RowKind::RecallVectors
        | RowKind::Manifests
        | RowKind::Passages
        | RowKind::Cites
        | RowKind::Derived
        | RowKind::Prompts
        | RowKind::ToolSets
        | RowKind::Packs
        | RowKind::Answers
        | RowKind::Events => false,
    }
}

/// Checks the file of an import on a blocking thread.
pub(super) async fn checked(file: &File, unreadable: &str) -> Result<ImportPlan> {
    let again = file.try_clone().map_err(|e| disk(e, unreadable))?;
    let checking = tokio::task::spawn_blocking(move || check(again)).await;
    checking
        .map_err(|e| Error::new(Code::Internal, "the check of the file ended early").caused_by(e))?
}

fn check(file: File) -> Result<ImportPlan> {
    let mut lines = FileLines::of(file)?;
    let mut checker = Checker::new(SCHEMA);
    while let Some(line) = lines.next()? {
        checker.line(line).map_err(refused)?;
    }
    checker.finish().map_err(refused)
}

/// Returns whether the existing agent equals the file's content, or `None` if the agent does not
/// exist.
pub(super) async fn compared(
    dump: &mut Dump<'_>,
    checked: &ImportPlan,
) -> std::result::Result<Option<bool>, Broken> {
    let opened = dump.open().await?;
    let Some(core) = &opened.core else { return Ok(None) };
    if opened.owner.sealed_as != checked.header.sealed_as {
        return Ok(Some(false));
    }
    let mut tally = Tally::begun("");
    tally.row(RowKind::Core, &line_of(RowKind::Core, core));
    let mut sink = |part: RowKind, row: Row| {
        tally.row(part, &line_of(part, &row));
        Ok(())
    };
    dump.rest(&opened, &mut sink).await?;
    Ok(Some(tally.state() == checked.state))
}

/// Returns the checksums over all rows of the agent. These are the rows stored so far, and the rows
/// that the import's last transaction will write.
async fn sums(dump: &mut Dump<'_>, order: &Order<'_>) -> std::result::Result<Tally, Broken> {
    let mut opened = dump.open().await?;
    opened.owner = order.owner.clone();
    opened.core = Some(order.checked.core.clone());
    // Until the import ends, the first version is the reservation of the agent's name, so it is
    // skipped.
    opened.versions_after = 1;
    let mut held: Vec<(RowKind, String)> = order.checked.held_back().collect();
    held.reverse();
    let mut tally = Tally::begun("");
    {
        let mut give = |part: RowKind, row: Row| {
            // The checksums take the rows in the order of an export, by kind. The rows of the last
            // transaction come before the stored rows of the same or a later kind.
            while let Some((before, line)) = held.pop() {
                if before > part {
                    held.push((before, line));
                    break;
                }
                tally.row(before, &line);
            }
            tally.row(part, &line_of(part, &row));
            Ok(())
        };
        dump.rest(&opened, &mut give).await?;
    }
    while let Some((before, line)) = held.pop() {
        tally.row(before, &line);
    }
    Ok(tally)
}

fn rows_exist() -> Error {
    let text = "this database already holds rows with ids of the file: an agent is imported into a database once";
    Error::new(Code::AgentExists, text)
}

fn answer(order: &Order<'_>, made: bool, rev: &str) -> Value {
    answer_of(order.scope, order.checked, made, rev)
}

fn answer_of(scope: &Scope, checked: &ImportPlan, made: bool, rev: &str) -> Value {
    let mut told = checked.answer();
    told["agent"] = scope.agent().into();
    told["made"] = made.into();
    if !rev.is_empty() {
        told["_rev"] = rev.into();
    }
    told
}
