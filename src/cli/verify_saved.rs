//! The file of `vctx verify --save`: writes the file, and checks it without a server.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, IntoInnerError, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::exit::Failure;
use crate::saved::Saved;
use crate::verify::Checked;
use crate::verify_signed::Trust;
use vctx_core::memory::receipt_check::ReceiptCheck;
use vctx_core::memory::verify::{Report, Verifier};

/// Maximum length in bytes of a line in a file that `--save` wrote. A text may have 1 MiB, and JSON
/// escapes may make the text six times as long.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Version of the format of files that `--save` writes.
const EXPORT_VERSION: u64 = 1;

/// Verifies a file written by `--save`, and the signature of the head in it.
pub(crate) fn checked(
    path: &Path,
    check: Option<&mut ReceiptCheck>,
    trust: &Trust,
) -> Result<Checked, Failure> {
    let (report, proof) = export(path, check)?;
    let mut told = json!({"entries": null, "differences": [], "more": 0});
    trust.check_head(&mut told, &report.agent, proof);
    let ledger = (!trust.is_empty()).then_some(told);
    Ok(Checked { report, ledger })
}

/// Verifies a file written by `--save`. Returns the report, and the signed head in the file.
fn export(path: &Path, mut check: Option<&mut ReceiptCheck>) -> Result<(Report, Value), Failure> {
    let file = File::open(path).map_err(|error| Failure::reading(path.display(), &error))?;
    let mut lines = ExportLines { path, lines: BufReader::new(file), number: 0 };
    let head =
        lines.next()?.ok_or_else(|| Failure::data(format!("{} is empty", path.display())))?;
    if head.get("vctx_export").and_then(Value::as_u64) != Some(EXPORT_VERSION) {
        return Err(Failure::data(format!(
            "{} is not an export of `vctx verify --save`",
            path.display()
        )));
    }
    let mut verifier = Verifier::new(&head["state"]).map_err(Failure::data)?;
    if let Some(check) = check.as_deref_mut() {
        check.state(&head["state"]);
    }
    while let Some(line) = lines.next()? {
        if let Some(after) = line.get("after") {
            return Ok((verifier.finish(after), line["signed"].clone()));
        }
        verifier.message(&line);
        if let Some(check) = check.as_deref_mut() {
            check.message(&line);
        }
    }
    Err(Failure::data(format!("{} ends without its last line: the export was cut", path.display())))
}

struct ExportLines<'a> {
    path: &'a Path,
    lines: BufReader<File>,
    number: u64,
}

impl ExportLines<'_> {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        let mut text = String::new();
        let read = self.lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut text);
        self.number += 1;
        match read.map_err(|error| Failure::reading(self.path.display(), &error))? {
            0 => Ok(None),
            _ => serde_json::from_str(&text).map(Some).map_err(|error| {
                Failure::data(format!("{} line {}: {error}", self.path.display(), self.number))
            }),
        }
    }
}

/// A file that `--save` is writing. The file contains the agent's state before the messages were
/// read, one line for each message, and the agent's state after the messages were read, with a
/// signed head of the agent's ledger.
pub(crate) struct Export {
    path: PathBuf,
    file: BufWriter<Saved>,
}

impl Export {
    pub(crate) fn create(path: &Path, state: &Value) -> Result<Export, Failure> {
        let file = Saved::begin(path).map_err(|error| Failure::writing(path.display(), &error))?;
        let mut export = Export { path: path.to_path_buf(), file: BufWriter::new(file) };
        export.line(&json!({"vctx_export": EXPORT_VERSION, "state": state}))?;
        Ok(export)
    }

    pub(crate) fn line(&mut self, value: &Value) -> Result<(), Failure> {
        writeln!(self.file, "{value}")
            .map_err(|error| Failure::writing(self.path.display(), &error))
    }

    pub(crate) fn finish(mut self, after: &Value, signed: &Value) -> Result<(), Failure> {
        self.line(&json!({"after": after, "signed": signed}))?;
        let written = self.file.into_inner().map_err(IntoInnerError::into_error);
        written
            .and_then(Saved::finish)
            .map_err(|error| Failure::writing(self.path.display(), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Verdict, as_json, verdict_text};
    use vctx_core::memory::receipt;

    fn sound() -> (Value, Vec<Value>) {
        let mut chain = receipt::genesis("ada");
        let mut messages = Vec::new();
        for seq in 1..=4u64 {
            let mut message = json!({"seq": seq, "id": format!("m{seq}"), "kind": "turn", "copy_of": null, "role": "user", "content": "x",
                "meta": {}, "token_estimate": 2, "created_at": format!("t{seq}"), "in_queue": seq > 2,
                "evicted_batch_id": if seq > 2 { Value::Null } else { json!("b") }, "salt": "s"});
            let digest = receipt::digest("s", &receipt::canonical_message("ada", &message));
            chain = receipt::link(&chain, &digest);
            message["digest"] = json!(digest);
            message["chain"] = json!(chain);
            messages.push(message);
        }
        let state = json!({"agent": "ada", "version": 4, "queue": {"head_seq": 3, "next_seq": 5, "count": 2, "tokens": 4},
            "chain": {"head": chain, "length": 4}});
        (state, messages)
    }

    fn saved(path: &Path, tamper: impl FnOnce(&mut Vec<Value>)) {
        let (state, mut messages) = sound();
        tamper(&mut messages);
        let mut export = Export::create(path, &state).unwrap();
        messages.iter().for_each(|message| export.line(message).unwrap());
        export.finish(&state, &Value::Null).unwrap();
    }

    #[test]
    fn an_export_is_verified_without_a_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e");
        saved(&path, |_| {});
        let (report, _) = export(&path, None).unwrap();
        assert!(report.holds());
        let text = verdict_text(
            &Verdict {
                reports: vec![Checked { report, ledger: None }],
                proof: None,
                signed: Value::Null,
                missing: Vec::new(),
                tombstones: Vec::new(),
                strays: Vec::new(),
                strays_more: false,
                away: Vec::new(),
                key: Value::Null,
            },
            None,
        );
        assert!(
            text.starts_with(
                "ada: holds. 4 messages = 2 in the queue + 2 evicted in 1 batches + 0 beside"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_tampered_export_names_its_first_broken_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e");
        saved(&path, |messages| messages[1]["content"] = json!("y"));
        let (report, _) = export(&path, None).unwrap();
        let verdict = Verdict {
            reports: vec![Checked { report, ledger: None }],
            proof: None,
            signed: Value::Null,
            missing: Vec::new(),
            tombstones: Vec::new(),
            strays: Vec::new(),
            strays_more: false,
            away: Vec::new(),
            key: Value::Null,
        };
        assert!(verdict_text(&verdict, None).contains(
            "first broken row: message 2 (id m2): the row is not what its digest was made of"
        ));
        let object = as_json(&verdict, None);
        assert_eq!(
            (&object["ok"], &object["agents"][0]["faults"][0]["seq"]),
            (&json!(false), &json!(2))
        );
    }

    #[test]
    fn cut_broken_and_foreign_exports_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            export(&path, None).unwrap_err().message
        };
        assert!(said("").ends_with("is empty"));
        assert!(said("{\"a\":1}\n").contains("is not an export"));
        let head = json!({"vctx_export": 1, "state": sound().0}).to_string();
        assert!(said(&format!("{head}\n{{\n")).contains("line 2"));
        assert!(said(&format!("{head}\n")).contains("the export was cut"));
    }
}
