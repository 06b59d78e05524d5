//! `vctx verify`: checks the messages of a server or of a file, and optionally a receipt. The
//! report names the first broken row.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::portable;
use crate::target::Target;
use crate::verify_file;
use crate::verify_saved::{self, Export};
use crate::verify_signed::{Trust, signers_text};
use crate::whose::Whose;
use vctx_client::{Client, MESSAGES_PER_PAGE_MAX};
use vctx_core::memory::receipt_check::{Proof, ReceiptCheck};
use vctx_core::memory::verify::{Fault, FaultKind, Report, Verifier};

const EXAMPLES: &str = "\
The command checks the digest of each message, the hash chain from the first message to the head in the core, and the core's own counts. It also
checks that each sequence number occurs once, that each evicted message has an entry in recall storage, and that no message of the queue has one.
It then compares the rows of an agent that an export contains with the agent's ledger, and the ledger with the signed checkpoints of the server,
which are outside the database. The report names rows that do not agree, agents that are missing, and rows of agents that do
not exist.

Examples:
  vctx verify                                            all agents of the running server
  vctx verify --agent ada --save ada.jsonl               one agent, and keep an export
  vctx verify --export ada.jsonl                         the saved file, without a server
  vctx export --agent ada --out ada.jsonl.gz             an export of all rows ...
  vctx verify --export ada.jsonl.gz --key KEY            ... and its check, without a server
  vctx context --agent ada --save receipt.json           save what the model was shown ...
  vctx verify --receipt receipt.json --item 17           ... and check later whether message 17 was in it
  vctx verify --receipt receipt.json --key KEY           ... and whether KEY signed the ledger as it was then
  vctx verify --key KEY1 --key KEY2                      whether one of these keys signed each agent's ledger
  vctx verify --agent ada --accept REV                   go on with a core that was changed in the database

The server refuses calls of an agent whose core somebody changed in the database. Restore the row from a backup, or look at the core (vctx state,
vctx export) and accept the revision that the refusal names.
The public key of a server is in the answer of `vctx verify --json` (`key`). Keep it where writers to the database cannot change it.
Exit code 0 if all checks pass, 65 if a check fails.";

/// Maximum size of a receipt, in bytes.
const RECEIPT_BYTES_MAX: u64 = 256 << 20;

/// Check that no message was lost, doubled or changed
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("whose", |arg| arg.help("The agent [default: all agents]")))]
pub struct Verify {
    #[command(flatten)]
    whose: Whose,

    /// Write state and messages of --agent to a file (JSON Lines) while reading them
    #[arg(long, value_name = "FILE", requires = "Whose", conflicts_with = "export")]
    save: Option<PathBuf>,

    /// Verify a file written by --save or by `vctx export` instead of the data of a server
    #[arg(long, value_name = "FILE", conflicts_with = "Whose")]
    export: Option<PathBuf>,

    /// Public key of a server, whose signature the newest signed head of each agent must have; can
    /// be repeated, and one of them is enough [default: signatures are not checked]
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,

    /// Public key of a witness, whose cosignature the newest signed head of each agent must have;
    /// can be repeated, and one of them is enough [default: cosignatures are not checked]
    #[arg(long, value_name = "KEY", requires = "key")]
    witness_key: Vec<String>,

    /// First accept the core of --agent with this revision, if the ledger contradicts it; an entry
    /// of the ledger says so
    #[arg(long, value_name = "REV", requires = "Whose", conflicts_with_all = ["export", "receipt"])]
    accept: Option<String>,

    /// A file that `vctx context --save` wrote, to compare with the agent's log
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,

    /// Report whether this message was in the prompt of the receipt
    #[arg(long, value_name = "SEQ", requires = "receipt")]
    item: Option<u64>,

    #[command(flatten)]
    pub target: Target,
}

/// The result of a verification: one report for each agent, and the result for the receipt, if
/// there is one.
#[derive(Debug)]
pub struct Verdict {
    pub reports: Vec<Checked>,
    pub proof: Option<Proof>,
    /// The signed head in the receipt; null if there is none.
    pub signed: Value,
    /// Agents with a signed ledger that are not in the database.
    pub missing: Vec<Value>,
    /// Agents that are gone, and whose tombstone is missing or false.
    pub tombstones: Vec<Value>,
    /// Rows of agents that do not exist: collection, agent, and number of rows.
    pub strays: Vec<Value>,
    /// Whether there may be more such rows.
    pub strays_more: bool,
    /// Names of the server's databases that do not answer.
    pub away: Vec<Value>,
    /// Public key of the server's checkpoints; null if it was not asked for.
    pub key: Value,
}

/// The result for one agent.
#[derive(Debug)]
pub struct Checked {
    pub report: Report,
    /// The server's comparison of all rows with the ledger; `None` for a file.
    pub ledger: Option<Value>,
}

impl Checked {
    fn holds(&self) -> bool {
        self.report.holds() && self.ledger.as_ref().is_none_or(agrees)
    }
}

/// Whether a comparison of the rows with the ledger found no difference.
pub fn agrees(ledger: &Value) -> bool {
    ledger["differences"].as_array().is_some_and(Vec::is_empty) && ledger["more"] == 0
}

impl Verdict {
    /// Whether all agents and the receipt passed the verification.
    pub fn holds(&self) -> bool {
        self.away.is_empty() && !self.contradicts()
    }

    /// Whether the verification found something wrong.
    fn contradicts(&self) -> bool {
        let listed = [&self.missing, &self.tombstones, &self.strays];
        listed.iter().any(|list| !list.is_empty())
            || !self.reports.iter().all(Checked::holds)
            || !self.proof.as_ref().is_none_or(Proof::holds)
    }
}

/// Runs `vctx verify`.
pub async fn run(verify: Verify) -> Result<(), Failure> {
    let mut trust = Trust::of_keys(&verify.key, &verify.witness_key)?;
    if let Some(path) = &verify.export
        && portable::is_export(path)
    {
        if verify.receipt.is_some() {
            let text = "compare a receipt with a server, or with a file that --save wrote";
            return Err(Failure::usage(text));
        }
        return verify_file::run(path, &trust, verify.target.json);
    }
    let mut check = match &verify.receipt {
        Some(path) => Some(receipt(path, &mut trust)?),
        None => None,
    };
    let (mut reports, mut ledgers) = (Vec::new(), Value::Null);
    match &verify.export {
        Some(path) => {
            reports.push(verify_saved::checked(path, check.as_mut(), &trust)?);
        }
        None => {
            let client = verify.target.client();
            if let Some((agent, rev)) = verify.whose.stated().zip(verify.accept.as_deref()) {
                client.accept_core(agent, rev).await?;
            }
            for agent in agents(&client, verify.whose.stated(), check.as_ref()).await? {
                let wanted = check.as_mut().filter(|check| check.agent() == agent);
                let save = verify.save.as_deref();
                reports.push(checked(&client, &agent, wanted, save, &trust).await?);
            }
        }
    }
    if verify.export.is_none() && verify.whose.stated().is_none() && check.is_none() {
        ledgers = verify.target.client().ledgers().await?;
    }
    same_agent(check.as_ref(), &reports)?;
    let mut proof = check.map(ReceiptCheck::finish);
    if let Some(proof) = &mut proof {
        trust.check_receipt(proof);
    }
    let signed = proof.as_ref().map(|_| trust.receipt_told()).unwrap_or_default();
    let listed = |name: &str| ledgers[name].as_array().cloned().unwrap_or_default();
    let (missing, tombstones) = (listed("missing"), listed("tombstones"));
    let (strays, away, key) = (listed("strays"), listed("places_away"), ledgers["key"].clone());
    let strays_more = ledgers["strays_more"] == true;
    let verdict =
        Verdict { reports, proof, signed, missing, tombstones, strays, strays_more, away, key };
    let answer = as_json(&verdict, verify.item);
    output::told(verify.target.json, &answer, |_| verdict_text(&verdict, verify.item))?;
    match verdict.holds() {
        true => Ok(()),
        false if !verdict.contradicts() => {
            let text = "a database does not answer, so its agents are not verified";
            Err(Failure::new(Exit::Unavailable, "NOT_READY", text)
                .next("run the command again when `vctx doctor` finds all databases"))
        }
        false => Err(Failure::new(Exit::Data, "NOT_PROVEN", "the proof failed").next(
            "restore the data from a backup, and find out which program wrote without the server",
        )),
    }
}

/// Verifies one agent of a running server: its messages, all its rows against its ledger, and the
/// ledger against signed heads.
pub async fn checked(
    client: &Client,
    agent: &str,
    check: Option<&mut ReceiptCheck>,
    save: Option<&Path>,
    trust: &Trust,
) -> Result<Checked, Failure> {
    let is_kept = check.is_some() || save.is_some();
    let read = live(client, agent, check, save);
    let ledger = client.ledger(agent, trust.kept_head(agent));
    let (read, ledger) = match is_kept {
        // A receipt or a file must not be newer than the signed head beside it.
        true => (read.await, ledger.await),
        false => tokio::join!(read, ledger),
    };
    let (report, export, mut ledger) = match (read, ledger) {
        (Ok((report, export)), ledger) => (report, export, ledger?),
        // The ledger names the row that the server or this program cannot read.
        (Err(failure), Ok(ledger))
            if [Exit::Data, Exit::Internal].contains(&failure.exit) && !agrees(&ledger) =>
        {
            (unreadable(agent, failure), None, ledger)
        }
        (Err(failure), _) => return Err(failure),
    };
    let proof = ledger["proof"].take();
    if let Some((export, after)) = export {
        export.finish(&after, &proof)?;
    }
    trust.check_head(&mut ledger, agent, proof);
    Ok(Checked { report, ledger: Some(ledger) })
}

/// Returns the report on an agent whose state or messages cannot be read.
fn unreadable(agent: &str, failure: Failure) -> Report {
    let fault = Fault {
        kind: FaultKind::Shape,
        seq: None,
        id: None,
        what: "the core or the messages cannot be read".into(),
        expected: "rows as the server writes them".into(),
        found: failure.message,
    };
    Report { agent: agent.to_owned(), faults: vec![fault], ..Report::default() }
}

async fn live(
    client: &Client,
    agent: &str,
    mut check: Option<&mut ReceiptCheck>,
    save: Option<&Path>,
) -> Result<(Report, Option<(Export, Value)>), Failure> {
    let state = client.state(agent).await?;
    if let Some(check) = check.as_deref_mut() {
        check.state(&state);
    }
    let mut export = save.map(|path| Export::create(path, &state)).transpose()?;
    let mut verifier = Verifier::new(&state).map_err(Failure::data)?;
    let mut from = 1;
    loop {
        let (page, next) = client.original_messages(agent, from, MESSAGES_PER_PAGE_MAX).await?;
        for message in &page {
            verifier.message(message);
            if let Some(check) = check.as_deref_mut() {
                check.message(message);
            }
            if let Some(export) = &mut export {
                export.line(message)?;
            }
        }
        match next {
            Some(next) if !verifier.is_complete() => from = next,
            _ => break,
        }
    }
    let after = client.state(agent).await?;
    let report = verifier.finish(&after);
    Ok((report, export.map(|export| (export, after))))
}

async fn agents(
    client: &Client,
    one: Option<&str>,
    check: Option<&ReceiptCheck>,
) -> Result<Vec<String>, Failure> {
    match (one, check) {
        (Some(agent), _) => Ok(vec![agent.to_string()]),
        (None, Some(check)) => Ok(vec![check.agent().to_string()]),
        (None, None) => {
            Ok(client.agents().await?.iter().map(|agent| output::field(agent, "/agent")).collect())
        }
    }
}

fn same_agent(check: Option<&ReceiptCheck>, reports: &[Checked]) -> Result<(), Failure> {
    match check {
        Some(check) if !reports.iter().any(|one| one.report.agent == check.agent()) => {
            Err(Failure::data(format!(
                "the receipt is of agent {}, not of the verified agent",
                check.agent()
            )))
        }
        _ => Ok(()),
    }
}

fn receipt(path: &Path, trust: &mut Trust) -> Result<ReceiptCheck, Failure> {
    let text = args::file(path, RECEIPT_BYTES_MAX)?;
    let answer: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::data(format!("{} is not JSON: {error}", path.display())))?;
    let wrong = |what| Failure::data(format!("{}: {what}", path.display()));
    let check = ReceiptCheck::new(&answer).map_err(wrong)?;
    trust.keep(check.agent(), &answer["signed"]).map_err(wrong)?;
    Ok(check)
}

/// Formats the result of a verification as JSON.
pub fn as_json(verdict: &Verdict, item: Option<u64>) -> Value {
    let agents: Vec<Value> = verdict
        .reports
        .iter()
        .map(|one| {
            let mut told = report_json(&one.report);
            told["ok"] = one.holds().into();
            told["ledger"] = one.ledger.clone().unwrap_or_default();
            told
        })
        .collect();
    let proof = verdict.proof.as_ref().map(|proof| {
        let mismatches: Vec<Value> = proof
            .mismatches
            .iter()
            .map(|one| json!({"seq": one.seq, "what": one.what, "expected": one.expected, "found": one.found}))
            .collect();
        json!({
            "agent": proof.agent, "ok": proof.holds(), "context_digest": proof.context_digest, "chain_length": proof.chain_length,
            "in_prompt": proof.in_prompt, "signed": verdict.signed, "mismatches": mismatches, "item": item, "item_in_prompt": item.map(|seq| proof.contains(seq)),
        })
    });
    let mut told = json!({"ok": verdict.holds(), "agents": agents, "missing": verdict.missing,
        "tombstones": verdict.tombstones, "strays": verdict.strays, "strays_more": verdict.strays_more, "places_away": verdict.away, "receipt": proof});
    if !verdict.key.is_null() {
        told["key"] = verdict.key.clone();
    }
    told
}

/// Formats the report on one agent as JSON.
pub fn report_json(report: &Report) -> Value {
    let faults: Vec<Value> = report
        .faults
        .iter()
        .map(|fault| {
            json!({"kind": fault.kind.name(), "seq": fault.seq, "id": fault.id, "what": fault.what, "expected": fault.expected, "found": fault.found})
        })
        .collect();
    json!({
        "agent": report.agent, "ok": report.holds(), "messages": report.messages, "kept": report.kept, "evicted": report.evicted,
        "other": report.other, "forgotten": report.forgotten, "expired": report.expired, "expiring": report.expiring, "batches": report.batches.len(), "chain_length": report.chain_length,
        "chain_head": report.chain_head, "faults": faults, "faults_more": report.faults_more,
    })
}

/// Formats the result of a verification as text.
pub fn verdict_text(verdict: &Verdict, item: Option<u64>) -> String {
    let mut lines: Vec<String> = verdict.reports.iter().flat_map(checked_lines).collect();
    if verdict.reports.is_empty() {
        lines.push("no agents: nothing to verify".into());
    }
    for one in &verdict.missing {
        lines.push(format!(
            "{}: MISSING. Its ledger was signed up to entry {} at {}, but it {}",
            output::field(one, "/agent"),
            one["entries"],
            output::field(one, "/at"),
            output::field(one, "/what")
        ));
    }
    for one in &verdict.tombstones {
        let text = |name: &str| output::field(one, name);
        lines.push(format!("{}: GONE, but the agent {}", text("/agent"), text("/what")));
    }
    for one in &verdict.strays {
        let text = |name: &str| output::field(one, name);
        let (rows, collection, agent) = (&one["rows"], text("/collection"), text("/agent"));
        let place = match one["place"].as_str() {
            Some(_) => format!(" of the database {}", text("/place")),
            None => String::new(),
        };
        lines.push(format!(
            "{rows} rows of {collection}{place} belong to {agent}, which does not exist"
        ));
    }
    if verdict.strays_more {
        lines.push("there may be more rows of agents that do not exist".into());
    }
    for name in &verdict.away {
        let name = output::cell(name.as_str().unwrap_or_default(), 128);
        lines.push(format!("the database {name} does not answer: its agents are not verified"));
    }
    if let Some(proof) = &verdict.proof {
        lines.extend(proof_lines(proof, &verdict.signed, item));
    }
    lines.join("\n")
}

/// Maximum number of differences from the ledger that the text shows for one agent.
const DIFFERENCES_SHOWN: usize = 50;

fn checked_lines(one: &Checked) -> Vec<String> {
    let mut lines = report_lines(&one.report);
    let Some(ledger) = &one.ledger else { return lines };
    if !agrees(ledger) && one.report.holds() {
        lines[0] = lines[0].replacen(": holds.", ": BROKEN.", 1);
    }
    lines.extend(ledger_lines(ledger));
    lines
}

/// Formats the comparison of an agent's rows with its ledger as lines of text.
pub fn ledger_lines(ledger: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if ledger["entries"] == 0 {
        lines.push("  no ledger yet: the next write to this agent begins it".into());
        return lines;
    }
    if ledger["entries"].is_number() {
        lines.push(format!(
            "  {} rows agree with the {} entries of the ledger, which ends in {}",
            ledger["rows"],
            ledger["entries"],
            output::cell(ledger["head"].as_str().unwrap_or_default(), 17)
        ));
    }
    if let Some(at) = ledger["signed"]["at"].as_str() {
        let signed = &ledger["signed"];
        let by = signers_text(signed);
        lines.push(format!("  signed up to entry {} at {at}{by}", signed["entries"]));
    }
    let differences = ledger["differences"].as_array().map(Vec::as_slice).unwrap_or_default();
    for one in differences.iter().take(DIFFERENCES_SHOWN) {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        lines.push(format!("  {} {}: {}", text("collection"), text("row"), text("what")));
    }
    let more = differences.len().saturating_sub(DIFFERENCES_SHOWN) as u64;
    let more = more + ledger["more"].as_u64().unwrap_or(0);
    if more > 0 {
        lines.push(format!("  and {more} more differences from the ledger"));
    }
    lines
}

fn report_lines(report: &Report) -> Vec<String> {
    let verdict = if report.holds() { "holds" } else { "BROKEN" };
    let mut lines = vec![format!(
        "{}: {verdict}. {} messages = {} in the queue + {} evicted in {} batches + {} beside; chain of {} ends in {}",
        report.agent,
        report.messages,
        report.kept,
        report.evicted,
        report.batches.len(),
        report.other,
        report.chain_length,
        output::cell(&report.chain_head, 17)
    )];
    if report.forgotten > 0 {
        lines.push(format!(
            "  {} messages were forgotten; their places in the chain hold",
            report.forgotten
        ));
    }
    if report.expired > 0 {
        lines.push(format!(
            "  {} messages expired by the policy of retention; their places in the chain hold",
            report.expired
        ));
    }
    if report.expiring > 0 {
        lines.push(format!(
            "  {} messages are expiring by the policy of retention: their entries are removed, their texts follow",
            report.expiring
        ));
    }
    for (at, fault) in report.faults.iter().enumerate() {
        let row = match (fault.seq, &fault.id) {
            (Some(seq), Some(id)) => format!("message {seq} (id {id})"),
            (Some(seq), None) => format!("message {seq}"),
            (None, _) => "core".to_string(),
        };
        let first = if at == 0 { "first broken row: " } else { "" };
        lines.push(format!("  {first}{row}: {}", fault.what));
        lines.push(format!("      should be {}, is {}", fault.expected, fault.found));
    }
    if report.faults_more > 0 {
        lines.push(format!("  and {} more", report.faults_more));
    }
    lines
}

fn proof_lines(proof: &Proof, signed: &Value, item: Option<u64>) -> Vec<String> {
    let verdict = if proof.holds() { "holds" } else { "BROKEN" };
    let mut lines = vec![format!(
        "receipt {}: {verdict}. {} messages in the prompt, rendered when the log had {}",
        output::cell(&proof.context_digest, 17),
        proof.in_prompt.len(),
        proof.chain_length
    )];
    if !signed.is_null() {
        lines.push(format!("  signed up to entry {}{}", signed["entries"], signers_text(signed)));
    }
    for mismatch in &proof.mismatches {
        let row =
            mismatch.seq.map_or_else(|| "receipt".to_string(), |seq| format!("message {seq}"));
        lines.push(format!("  {row}: {}", mismatch.what));
        lines.push(format!("      should be {}, is {}", mismatch.expected, mismatch.found));
    }
    if let Some(seq) = item {
        let was = if proof.contains(seq) { "was" } else { "was not" };
        lines.push(format!("  message {seq} {was} in the prompt"));
    }
    lines
}
