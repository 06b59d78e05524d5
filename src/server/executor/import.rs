//! A file becomes an agent: checked whole before a row is written, written where nobody sees it, read back, and only then let be.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::executor::{Executor, patience};
use super::export::{disk, lost, place, spool};
use super::read::forgotten;
use crate::store::{self, Batch, Broken, Dump, Fault, Mark, Row, SCHEMA, Settle};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    ATTEMPTS_MAX, EXPORT_BYTES_MAX, EXPORT_LINE_BYTES_MAX, EXPORT_PAGE_BYTES, EXPORT_PAGE_ROWS,
    EXPORT_TRIES_MAX, IMPORT_LEASE_MS,
};
use vctx_core::memory::archive::VectorSetting;
use vctx_core::memory::export::{
    Checked, Checker, Owner, Part, Tally, VectorKind, line_of, parted, settled,
};
use vctx_core::policy::{Principal, Scope, admit};

/// A file on its way in: what was sent so far, on no path.
pub struct Incoming {
    file: File,
    bytes: u64,
    place: OwnedSemaphorePermit,
}

impl Incoming {
    /// Some bytes more.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if self.bytes > EXPORT_BYTES_MAX {
            let text = format!("an export has at most {EXPORT_BYTES_MAX} bytes");
            return Err(Error::new(Code::BodyTooLarge, text).with("bytes_max", EXPORT_BYTES_MAX));
        }
        let text = "the disk of the server took no more: make room on it";
        self.file.write_all(bytes).map_err(|e| disk(e, text))
    }
}

/// The lines of a file, each with a bound.
struct Lines {
    file: BufReader<File>,
    line: String,
}

impl Lines {
    fn of(mut file: File) -> Result<Self> {
        file.rewind().map_err(|e| disk(e, "the file that was sent cannot be read again"))?;
        Ok(Self { file: BufReader::new(file), line: String::new() })
    }

    /// The next line without its end; none behind the last.
    fn next(&mut self) -> Result<Option<&str>> {
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
            Err(e) => Err(disk(e, "the file that was sent cannot be read again")),
        }
    }
}

/// The refusal of a file.
fn refused(why: String) -> Error {
    Error::argument("file", format!("{why}: nothing was imported"))
}

/// What is asked of an import.
pub(super) struct Order<'a> {
    pub(super) scope: &'a Scope,
    pub(super) checked: &'a Checked,
    pub(super) owner: Owner,
}

/// What is written last and at once.
pub(super) struct Last {
    pub(super) core: Row,
    pub(super) first: Row,
    pub(super) schedules: Vec<Row>,
    /// Number of the vectors' setting, of an agent that has documents.
    pub(super) number: Option<u64>,
}

impl Order<'_> {
    pub(super) fn last(&self) -> Result<Last> {
        let of = |part, row: &Row| settled(part, row.clone(), &self.owner).map_err(refused);
        let schedules: Result<Vec<Row>> =
            self.checked.schedules.iter().map(|row| of(Part::Schedules, row)).collect();
        Ok(Last {
            core: of(Part::Core, &self.checked.core)?,
            first: of(Part::Versions, &self.checked.first)?,
            schedules: schedules?,
            number: self.checked.header.vector.as_ref().map(|_| self.owner.number),
        })
    }
}

impl Executor {
    /// Begins to take a file in.
    pub fn incoming(&self) -> Result<Incoming> {
        let place = place(&self.exports)?;
        Ok(Incoming { file: spool(self.spool.as_deref())?, bytes: 0, place })
    }

    /// Makes an agent of a file. The same file again changes nothing, and says so.
    pub async fn import(
        &self,
        principal: &Principal,
        agent: &str,
        incoming: Incoming,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let Incoming { file, place: _place, .. } = incoming;
        let again =
            file.try_clone().map_err(|e| disk(e, "the file that was sent cannot be read again"))?;
        let checking = tokio::task::spawn_blocking(move || check(again)).await;
        let checked = checking.map_err(|e| {
            Error::new(Code::Internal, "the check of the file ended early").caused_by(e)
        })??;
        if let Some(told) = self.imported_before(&scope, &checked).await? {
            return Ok(told);
        }
        self.register(&scope).await?;
        let owner = self.owner_of(&scope, &checked).await?;
        let order = Order { scope: &scope, checked: &checked, owner };
        let by = self.ids.key();
        let settle =
            Settle { rw: &self.rw, scope: &scope, by: &by, mode: self.mode, moving: false };
        let mark = self.take_place(&settle, &order).await?;
        match self.written(&settle, &order, &mark, file).await {
            Ok(rev) => {
                self.archive.nudge();
                tracing::info!(agent = scope.key(), rows = order.checked.rows, "imported");
                Ok(told(&order, true, &rev))
            }
            Err(error) => {
                // Rows that were written are nobody's; what cannot be taken back now is by the next import of this name.
                if let Err(fault) = self.take_back(&settle).await {
                    tracing::warn!(%fault, agent = scope.key(), "rows of an import are left for the next one to take back");
                }
                Err(error)
            }
        }
    }

    /// Whether there is such an agent already: told if it is just what the file says, else refused.
    async fn imported_before(&self, scope: &Scope, checked: &Checked) -> Result<Option<Value>> {
        let mut dump = self.patiently(|| Dump::begin(&self.ro, &self.rw, scope)).await?;
        let found = compared(&mut dump, checked).await;
        dump.end().await;
        match found? {
            None => Ok(None),
            Some(true) => Ok(Some(told_of(scope, checked, false, ""))),
            Some(false) => Err(Error::new(
                Code::AgentExists,
                "there is an agent of that name, and it is not what the file says: import under another name",
            )),
        }
    }

    /// Whose the rows will be. Vectors must be those that serve here; where none do yet, those of the file will.
    pub(super) async fn owner_of(&self, scope: &Scope, checked: &Checked) -> Result<Owner> {
        let mut owner = Owner {
            scope: scope.key().to_owned(),
            tenant: scope.tenant().to_owned(),
            sealed_as: checked.header.sealed_as.clone(),
            vector: checked.header.vector.clone(),
            number: 1,
        };
        let Some(kind) = &checked.header.vector else { return Ok(owner) };
        let setting = match self.patiently(|| store::vector_setting(&self.ro)).await? {
            Some(setting) => setting,
            None => self.first_setting(kind).await?,
        };
        if store::kind_of(&setting) != *kind {
            let text = "the archive of this database holds vectors of another kind: change one of the two with `vctx reindex` first";
            return Err(Error::new(Code::VectorSettingMismatch, text)
                .with("stored", setting.described())
                .with("given", json!(kind)));
        }
        if setting.next.is_some() {
            let text =
                "a change of all vectors is under way in this database: import when it is done";
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
        let now = vctx_base::clock::iso8601(self.clock.unix_ms());
        let setting = VectorSetting::of(&made_by, kind.metric, 1, now);
        self.patiently(|| store::write_setting(&self.rw, &setting)).await?;
        let written = self.patiently(|| store::vector_setting(&self.ro)).await?;
        written.ok_or_else(|| Error::new(Code::StoreRefused, "the vector setting was not kept"))
    }

    /// Takes the place of the agent; what another file left there goes first. Gives the mark to go on from.
    pub(super) async fn take_place(&self, settle: &Settle<'_>, order: &Order<'_>) -> Result<Mark> {
        // What the rows are here follows from the state and from the name of their vectors.
        let state = &format!("{}/{}", order.checked.state, order.owner.number);
        let mut races = 0;
        for _ in 0..ATTEMPTS_MAX {
            let now_ms = self.clock.unix_ms();
            let begun = settle.begin(state, now_ms, now_ms + IMPORT_LEASE_MS).await;
            let begun = match begun {
                Ok(begun) => begun,
                Err(fault) if fault.raced() && races < ATTEMPTS_MAX => {
                    races += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            };
            if begun.forgotten && !settle.moving {
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
                    self.take_back(settle).await.map_err(Error::from)?;
                }
                Some(held) => return Ok(Mark { by: settle.by.to_owned(), ..held }),
                None => {
                    return Ok(Mark {
                        by: settle.by.to_owned(),
                        state: state.clone(),
                        ..Mark::default()
                    });
                }
            }
        }
        Err(Error::new(Code::Conflict, "others took the place of that name each time: try again"))
    }

    /// Takes back what an import wrote, and gives the place of the agent free.
    pub(super) async fn take_back(&self, settle: &Settle<'_>) -> std::result::Result<(), Fault> {
        let until = || self.clock.unix_ms() + IMPORT_LEASE_MS;
        let mut answers = self.own_answers(settle.scope).await?;
        loop {
            let some = answers.split_off(answers.len().saturating_sub(EXPORT_PAGE_ROWS.1 as usize));
            match settle.trim(&some, until()).await? {
                // Each round takes rows away or is the last, so this ends.
                Some(gone) if gone > 0 || !answers.is_empty() => {}
                Some(_) => return settle.drop_place().await,
                None => return Ok(()),
            }
        }
    }

    async fn own_answers(&self, scope: &Scope) -> std::result::Result<Vec<String>, Fault> {
        let mut dump = Dump::begin(&self.ro, &self.rw, scope).await?;
        let keys = dump.answer_keys().await;
        dump.end().await;
        match keys {
            Ok(keys) => Ok(keys),
            Err(Broken::Store(fault)) => Err(fault),
            Err(Broken::Other(_)) => Ok(Vec::new()),
        }
    }

    /// Frees the place of an agent that an import left behind; false while one is under way there.
    pub(super) async fn freed(&self, scope: &Scope) -> Result<bool> {
        let by = self.ids.key();
        let settle = Settle { rw: &self.rw, scope, by: &by, mode: self.mode, moving: false };
        let now_ms = self.clock.unix_ms();
        let begun = settle.begin("", now_ms, now_ms + IMPORT_LEASE_MS).await?;
        if !begun.taken {
            return Ok(begun.there);
        }
        self.take_back(&settle).await?;
        Ok(true)
    }

    /// Writes all rows, and lets the agent be.
    async fn written(
        &self,
        settle: &Settle<'_>,
        order: &Order<'_>,
        mark: &Mark,
        file: File,
    ) -> Result<String> {
        let rows = self.laid(settle, order, mark, file).await?;
        self.finished(settle, order, rows).await
    }

    /// Writes all rows behind those that the mark tells of, and reads them back; how many there are.
    pub(super) async fn laid(
        &self,
        settle: &Settle<'_>,
        order: &Order<'_>,
        mark: &Mark,
        file: File,
    ) -> Result<u64> {
        let mut lines = Lines::of(file)?;
        // The first line was checked.
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
            batch.entry(part).or_default().push(settled(part, row, &order.owner).map_err(refused)?);
            if rows >= EXPORT_PAGE_ROWS.1 || bytes >= EXPORT_PAGE_BYTES {
                self.write(settle, std::mem::take(&mut batch), written).await?;
                written += rows;
                (rows, bytes) = (0, 0);
            }
        }
        if rows > 0 {
            self.write(settle, batch, written).await?;
            written += rows;
        }
        tokio::select! {
            read = self.read_back(order) => read?,
            never = self.renewed(settle, written) => match never {},
        }
        Ok(written)
    }

    async fn write(&self, settle: &Settle<'_>, batch: Batch, before: u64) -> Result<()> {
        let until_ms = self.clock.unix_ms() + IMPORT_LEASE_MS;
        let mut faults = 0;
        let deadline = patience();
        loop {
            match settle.write(batch.clone(), before, until_ms).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let text =
                        "another import took the place of this one: try again when it is done";
                    return Err(Error::new(Code::Conflict, text));
                }
                Err(fault) if fault.taken() => return Err(taken()),
                Err(fault) if fault.raced() && faults < ATTEMPTS_MAX => {
                    faults += 1;
                    tokio::time::sleep(Duration::from_millis(1 + self.ids.below(8))).await;
                }
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }

    /// What was written must be what the file says, to the last digit.
    async fn read_back(&self, order: &Order<'_>) -> Result<()> {
        let mut faults = 0;
        for _ in 0..EXPORT_TRIES_MAX {
            let mut dump = self.patiently(|| Dump::begin(&self.ro, &self.rw, order.scope)).await?;
            let read = sums(&mut dump, order).await;
            dump.end().await;
            match read {
                Ok(read) if read.state() == order.checked.state => return Ok(()),
                Ok(_) => {
                    let text =
                        "the database does not hold what was written into it: nothing was imported";
                    return Err(Error::new(Code::StoreRefused, text));
                }
                Err(Broken::Store(fault)) if lost(fault.kind) => {
                    self.pause(fault, &mut faults, patience()).await?;
                }
                Err(broken) => return Err(broken.into()),
            }
        }
        let text = "the database let go of what was read each time: send the file again";
        Err(Error::new(Code::StoreUnavailable, text))
    }

    /// Says again and again that the import lives, while nothing is written.
    async fn renewed(&self, settle: &Settle<'_>, written: u64) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(IMPORT_LEASE_MS / 3)).await;
            let until_ms = self.clock.unix_ms() + IMPORT_LEASE_MS;
            // Whoever took the place is found by the last write.
            if let Err(fault) = settle.write(Batch::new(), written, until_ms).await {
                tracing::debug!(%fault, "the mark of an import is not renewed");
            }
        }
    }

    async fn finished(&self, settle: &Settle<'_>, order: &Order<'_>, rows: u64) -> Result<String> {
        let Last { core, first, schedules, number } = order.last()?;
        let mut faults = 0;
        let deadline = patience();
        loop {
            match settle.finish(&core, &first, &schedules, rows, number).await {
                Ok(done) => {
                    if let Some(rev) = done.rev {
                        return Ok(rev);
                    }
                    // The answer to a first try was lost, and it was done.
                    if done.there && done.mark.is_none() {
                        return Ok(String::new());
                    }
                    let text = match done.serves {
                        true => {
                            "another import took the place of this one: try again when it is done"
                        }
                        false => {
                            "other vectors serve in this database since the import began: import again"
                        }
                    };
                    return Err(Error::new(Code::Conflict, text));
                }
                Err(fault) if fault.taken() => return Err(taken()),
                Err(fault) if fault.raced() && faults < ATTEMPTS_MAX => {
                    faults += 1;
                    tokio::time::sleep(Duration::from_millis(1 + self.ids.below(8))).await;
                }
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }
}

/// Whether a row is written last.
fn held_back(part: Part, row: &Row) -> bool {
    match part {
        Part::Core | Part::Schedules => true,
        Part::Versions => row.get("version").and_then(Value::as_u64) == Some(1),
        _ => false,
    }
}

pub(super) fn check(file: File) -> Result<Checked> {
    let mut lines = Lines::of(file)?;
    let mut checker = Checker::new(SCHEMA);
    while let Some(line) = lines.next()? {
        checker.line(line).map_err(refused)?;
    }
    checker.finish().map_err(refused)
}

/// Whether the agent that is there is just what a file says, and its revision; none without an agent.
pub(super) async fn compared(
    dump: &mut Dump<'_>,
    checked: &Checked,
) -> std::result::Result<Option<bool>, Broken> {
    let opened = dump.open().await?;
    let Some(core) = &opened.core else { return Ok(None) };
    if opened.owner.sealed_as != checked.header.sealed_as {
        return Ok(Some(false));
    }
    let mut tally = Tally::begun("");
    tally.row(Part::Core, &line_of(Part::Core, core));
    let mut sink = |part: Part, row: Row| {
        tally.row(part, &line_of(part, &row));
        Ok(())
    };
    dump.rest(&opened, &mut sink).await?;
    Ok(Some(tally.state() == checked.state))
}

/// The sums over what lies in the place of the agent, with what is still held back.
async fn sums(dump: &mut Dump<'_>, order: &Order<'_>) -> std::result::Result<Tally, Broken> {
    let mut opened = dump.open().await?;
    opened.owner = order.owner.clone();
    opened.core = Some(order.checked.core.clone());
    // The first copy of the texts holds the place until the end.
    opened.versions_after = 1;
    let mut held: Vec<(Part, String)> = order.checked.held_back().collect();
    held.reverse();
    let mut tally = Tally::begun("");
    {
        let mut give = |part: Part, row: Row| {
            // What is held back stands in its order before rows of later kinds.
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

fn taken() -> Error {
    let text = "this database holds something under the ids in the file already: an agent is imported into a database once";
    Error::new(Code::AgentExists, text)
}

fn told(order: &Order<'_>, made: bool, rev: &str) -> Value {
    told_of(order.scope, order.checked, made, rev)
}

fn told_of(scope: &Scope, checked: &Checked, made: bool, rev: &str) -> Value {
    let mut told = checked.told();
    told["agent"] = scope.agent().into();
    told["made"] = made.into();
    if !rev.is_empty() {
        told["_rev"] = rev.into();
    }
    told
}
