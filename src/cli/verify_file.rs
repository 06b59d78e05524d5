//! `vctx verify --export`: checks a file that `vctx export` wrote, without a server.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::portable;
use crate::verify::{agrees, ledger_lines};
use crate::verify_signed::{Trust, signers_text};
use vctx_base::clock::{Clock as _, SystemClock};
use vctx_base::signing;
use vctx_core::ledger::FileCheck;
use vctx_core::limits::EXPORT_LINE_BYTES_MAX;
use vctx_server::store::SCHEMA;

/// Checks an export, and the signature of its ledger's head with the given public keys.
pub(crate) fn run(path: &Path, trust: &Trust, json: bool) -> Result<(), Failure> {
    let mut lines = BufReader::new(portable::opened(path)?);
    let mut check = FileCheck::new(SCHEMA);
    // The length of the file is bounded.
    while let Some(line) = next(&mut lines, path)? {
        check.line(&line);
    }
    let report = check.finish(SystemClock.unix_ms() / 1_000);
    let mut report = report.map_err(|why| Failure::data(format!("{}: {why}", path.display())))?;
    let signers = match trust.is_empty() {
        true => Value::Null,
        false => {
            report.check_end();
            json!(report.check_signature(trust.keys(), signing::verified))
        }
    };
    let note = report.checkpoint.as_ref().map_or("", |proof| proof.note.as_str());
    let cosigned = trust.cosigned(note).unwrap_or_else(|why| {
        report.differ(why);
        Value::Null
    });
    let mut ledger = report.folded.told();
    let head = report.checkpoint.as_ref().map(|proof| &proof.head);
    ledger["signed"] = json!({"entries": head.map(|head| head.n), "keys": signers,
        "cosigned": cosigned});
    let holds = agrees(&ledger) && ledger["entries"] != 0;
    let answer = json!({"ok": holds, "agent": report.agent, "ledger": ledger});
    output::told(json, &answer, text)?;
    match holds {
        true => Ok(()),
        false => Err(Failure::new(Exit::Data, "NOT_PROVEN", "the proof failed")
            .next("get another export of the agent, and compare the places that differ")),
    }
}

fn text(answer: &Value) -> String {
    let ledger = &answer["ledger"];
    let verdict = if answer["ok"] == true { "holds" } else { "BROKEN" };
    let mut lines = vec![format!("{}: {verdict}.", output::field(answer, "/agent"))];
    lines.extend(ledger_lines(ledger));
    let signed = &ledger["signed"];
    lines.push(match (&signed["entries"], &signed["keys"]) {
        (Value::Null, _) => "  the file has no signed head".to_owned(),
        (n, Value::Null) => format!(
            "  signed up to entry {n}; the signature was not checked: give the public key with --key"
        ),
        (n, _) => format!("  signed up to entry {n}{}", signers_text(signed)),
    });
    lines.join("\n")
}

fn next(lines: &mut impl BufRead, path: &Path) -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let read = lines.by_ref().take(EXPORT_LINE_BYTES_MAX as u64).read_line(&mut line);
    match read.map_err(|error| Failure::reading(path.display(), &error))? {
        0 => Ok(None),
        _ => Ok(Some(line.trim_end_matches('\n').to_owned())),
    }
}
