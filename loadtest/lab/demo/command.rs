//! The `vctx demo` command: reads the conversation, starts the engine and the server, sends the
//! conversation, checks the result, and always stops the processes that it started.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::demo::input::{self, Turn};
use crate::demo::picture::Picture;
use crate::demo::play::{self, Played};
use crate::demo::proof::{self, Proof};
use crate::demo::stage::Stage;
use vctx_base::clock;
use vctx_cli::args;
use vctx_cli::exit::{Exit, Failure};
use vctx_cli::output;

const EXAMPLES: &str = "\
The demo starts an engine and a server as separate processes, on sockets in a temporary directory, and stops both at the end. It kills
the server with SIGKILL after 40 % of the conversation, and the engine after 70 %. It repeats each call without an answer, with the
call's idempotency key.

A conversation is JSON Lines of {\"role\", \"content\", \"name\", \"time\"}, a LoCoMo conversation, or a BEAM chat.

Examples:
  vctx demo
  vctx demo talk.jsonl --window 4096
  vctx demo --json | jq .lost
  vctx demo --keep ./kept && vctx serve --data-dir ./kept

Exit code 0 only if nothing was lost, doubled or put out of order, and no limit was broken.";

/// Maximum size of a conversation file, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Play a long conversation through a small window, and check that nothing is lost
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Demo {
    /// File with the conversation to play [default: a conversation that ships with vctx]
    file: Option<PathBuf>,

    /// Size of the context window, in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 8192)]
    window: u64,

    /// Keep the data in this directory, which must be empty or absent
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Print one JSON object instead of the report
    #[arg(long)]
    pub json: bool,
}

/// Runs `vctx demo`: plays the conversation and prints the results.
pub async fn run(demo: Demo) -> Result<(), Failure> {
    let turns = conversation(&demo)?;
    let began = clock::now();
    let mut stage = Stage::prepare(demo.keep.as_deref())?;
    let ended = tokio::select! {
        ended = act(&mut stage, &demo, &turns) => ended,
        interrupted = interruption() => Err(interrupted),
    };
    let stopped = stage.stop().await;
    let (played, proof) = ended.map_err(|failure| stage.explain(failure))?;
    stopped?;
    report(&demo, &played, &proof, began.elapsed())
}

fn conversation(demo: &Demo) -> Result<Vec<Turn>, Failure> {
    let turns = match &demo.file {
        Some(path) => {
            input::parse(&path.display().to_string(), &args::file(path, FILE_BYTES_MAX)?)?
        }
        None => input::shipped()?,
    };
    match turns.is_empty() {
        true => Err(Failure::data("the conversation is empty")),
        false => Ok(turns),
    }
}

async fn act(stage: &mut Stage, demo: &Demo, turns: &[Turn]) -> Result<(Played, Proof), Failure> {
    let mut picture = Picture::new(turns.len());
    let played = play::play(stage, &mut picture, turns, demo.window).await?;
    picture.close();
    let proof = proof::prove(&stage.client(), &played, demo.file.is_none()).await?;
    Ok((played, proof))
}

/// Waits until the user or the system asks the process to end.
pub async fn interruption() -> Failure {
    let wait = async |kind: SignalKind| match signal(kind) {
        Ok(mut signals) => drop(signals.recv().await),
        // If no handler can be installed, the signal's default action ends the process, so this
        // function need not wait for the signal.
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
    Failure::new(Exit::TryAgain, "INTERRUPTED", "interrupted; engine and server are stopped")
}

fn report(demo: &Demo, played: &Played, proof: &Proof, took: Duration) -> Result<(), Failure> {
    let broken = proof.broken(played);
    match demo.json {
        true => output::line(&summary(played, proof, took).to_string())?,
        false => output::line(&proof::report_text(played, proof, took))?,
    }
    if let Some(dir) = demo.keep.as_ref().filter(|_| !demo.json) {
        output::line(&format!(
            "\nThe data are kept. Look at them with:\n  vctx serve --data-dir {0}\n  vctx state --agent {1}",
            dir.display(),
            play::AGENT
        ))?;
    }
    match broken.as_slice() {
        [] => Ok(()),
        broken => Err(Failure::new(Exit::Data, "NOT_PROVEN", broken.join("; "))),
    }
}

/// The JSON object that `vctx demo --json` prints.
fn summary(played: &Played, proof: &Proof, took: Duration) -> Value {
    let (score, counts, metrics) = (&played.score, &proof.counts, &played.metrics);
    json!({
        "window": score.window, "messages_sent": played.sent.len(), "messages_kept": counts.kept, "messages_evicted": counts.evicted,
        "lost": counts.lost, "doubled": counts.doubled, "out_of_order": counts.out_of_order,
        "occupancy_max": score.occupancy_max, "flushes": proof.flushes, "warnings": proof.warnings,
        "summary_tokens_max": score.summary_tokens_max,
        "transactions_committed": metrics.committed, "transactions_aborted": metrics.aborted,
        "turns_in_file": played.turns, "turns_split": played.turns_split,
        "kills": played.kills, "kills_in_flight": played.kills_in_flight, "retries": played.retries, "replayed": played.replayed,
        "flushes_short_of_target": score.short_of_target, "limits_broken": score.broken,
        "seconds": (took.as_secs_f64() * 1000.0).round() / 1000.0,
        "arangors_typed_share": metrics.typed_share(), "store_requests": metrics.typed + metrics.raw,
        "facts_planted": proof.facts.len(), "facts_stored": proof.facts.iter().filter(|fact| fact.is_stored).count(),
        "facts_in_window": proof.facts.iter().filter(|fact| fact.is_in_window).count(),
        "facts_asked": proof.recalled.len(), "facts_recalled": proof.recalled.iter().filter(|one| one.is_proven).count(),
        "verify": proof.verdict.holds(),
    })
}
