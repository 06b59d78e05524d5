//! `vctx reindex`: replaces all vectors of the archive, and shows the progress. Searches use the
//! current vectors until every document has new vectors.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use vctx_client::Client;

const EXAMPLES: &str = "\
The section `[embedder.next]` of the server's configuration describes the next embedder. Searches
use the current vectors until every document has the next vectors. After that, all searches use the
next vectors. An interrupted reindex continues where it stopped. See docs/how-to/reindex.md.

Examples:
  vctx reindex start --watch       begin or continue, and show progress
  vctx reindex status --json       numbers for a program
  vctx reindex stop                stop; the vectors computed so far are kept
  vctx reindex cancel              cancel; the vectors computed so far are removed
  vctx reindex index --watch       the same vectors, with a newly trained index";

/// Replace all vectors of the archive with the vectors of another embedder while searches continue
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Reindex {
    #[command(subcommand)]
    action: ReindexAction,
}

#[derive(Debug, Subcommand)]
enum ReindexAction {
    /// Begin a reindex with the configured next embedder, or continue a stopped reindex
    Start {
        /// Metric of the next vectors [default: the metric of the current vectors]
        #[arg(long, value_enum)]
        metric: Option<Metric>,
        #[command(flatten)]
        look: Look,
    },
    /// Show the progress of the reindex
    Status {
        #[command(flatten)]
        look: Look,
    },
    /// Stop the reindex, and keep the vectors computed so far
    Stop {
        #[command(flatten)]
        target: Target,
    },
    /// Cancel the reindex, and remove the vectors computed so far
    Cancel {
        #[command(flatten)]
        target: Target,
    },
    /// Train a new index of the current vectors; searches use the old index until the new index is
    /// ready
    Index {
        #[command(flatten)]
        look: Look,
    },
}

#[derive(Debug, Clone, Args)]
struct Look {
    /// Show the progress every second until the work is done
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Metric {
    Cosine,
    L2,
}

impl Reindex {
    /// Returns the server and output options of the action.
    pub fn target(&self) -> &Target {
        match &self.action {
            ReindexAction::Start { look, .. }
            | ReindexAction::Status { look }
            | ReindexAction::Index { look } => &look.target,
            ReindexAction::Stop { target } | ReindexAction::Cancel { target } => target,
        }
    }
}

/// Pause between two requests for the progress of the reindex.
const WATCH_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of progress requests that one command with `--watch` sends: one per second for a
/// day.
const WATCHES_MAX: u32 = 24 * 3600;

/// Runs `vctx reindex`.
pub async fn run(asked: Reindex) -> Result<(), Failure> {
    let (target, client) = (asked.target().clone(), asked.target().client());
    let (told, watch) = match asked.action {
        ReindexAction::Start { metric, look } => {
            let mut body = json!({"action": "start"});
            if let Some(metric) = metric {
                body["metric"] = match metric {
                    Metric::Cosine => "cosine",
                    Metric::L2 => "l2",
                }
                .into();
            }
            (client.reindex(&body).await?, look.watch)
        }
        ReindexAction::Status { look } => (client.reindex_status().await?, look.watch),
        ReindexAction::Index { look } => return train(&look, &client).await,
        ReindexAction::Stop { .. } => (client.reindex(&json!({"action": "stop"})).await?, false),
        ReindexAction::Cancel { .. } => {
            (client.reindex(&json!({"action": "cancel"})).await?, false)
        }
    };
    if !watch {
        return show(&target, &told);
    }
    let mut told = told;
    for _ in 0..WATCHES_MAX {
        match target.json {
            true => output::value(&told)?,
            false => output::progress(&line(&told))?,
        }
        if told["state"] != "running" && told["state"] != "cleaning" {
            return match target.json {
                true => Ok(()),
                false => output::line(&format!("\n{}", picture(&told))),
            };
        }
        tokio::time::sleep(WATCH_PAUSE).await;
        told = client.reindex_status().await?;
    }
    Ok(())
}

fn show(target: &Target, told: &Value) -> Result<(), Failure> {
    output::told(target.json, told, picture)
}

/// Starts the training of a new vector index; with `--watch`, waits until the training has ended.
async fn train(look: &Look, client: &Client) -> Result<(), Failure> {
    let mut told = client.reindex(&json!({"action": "index"})).await?;
    for _ in 0..WATCHES_MAX {
        let index = &told["vector_index"];
        let done = index["state"] == "ready" && index["next"].is_null();
        match (look.target.json, look.watch && !done) {
            (true, _) => output::value(&told)?,
            (false, true) => output::progress(&trained(index))?,
            (false, false) => output::line(&trained(index))?,
        }
        if done || !look.watch {
            return Ok(());
        }
        tokio::time::sleep(WATCH_PAUSE).await;
        told = client.ready().await?;
    }
    Ok(())
}

/// Formats the state of the vector index on one line.
fn trained(index: &Value) -> String {
    let field = |pointer: &str| output::field(index, pointer);
    let now = format!("index {} with {} lists", field("/state"), field("/nLists"));
    match index["next"].is_null() {
        true => now,
        false => {
            format!(
                "{now}; the next index, with {} lists, is {}",
                field("/next/nLists"),
                field("/next/state")
            )
        }
    }
}

/// Length of the progress bar, in characters.
const BAR_CELLS: usize = 24;

/// Formats the progress of a reindex on one line.
fn line(told: &Value) -> String {
    let number = |name: &str| told[name].as_u64().unwrap_or(0);
    let phase = told["phase"].as_str().unwrap_or("done").replace('_', " ");
    let (done, all) = match told["state"].as_str() {
        Some("cleaning") => (number("chunks_cleaned"), number("chunks")),
        Some("running" | "stopped") => (number("chunks_done"), number("chunks")),
        _ => return "done".into(),
    };
    let full = usize::try_from(done.min(all) * BAR_CELLS as u64 / all.max(1)).unwrap_or(0);
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR_CELLS - full));
    let mut text = format!("{phase}  [{bar}]  {done}/{all} chunks");
    if told["documents_done"].is_u64() {
        let (done, all) = (number("documents_done"), number("documents"));
        text.push_str(&format!("  {done}/{all} documents"));
    }
    if let (Some(rate), Some(left)) = (told["chunks_per_s"].as_f64(), told["left_s"].as_f64()) {
        text.push_str(&format!("  {rate:.0}/s  {} left", duration(left)));
    }
    if let Some(obstacle) = told["obstacle"].as_str() {
        text.push_str(&format!("  ! {obstacle}"));
    }
    text
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

/// Formats the whole state of a reindex as text.
fn picture(told: &Value) -> String {
    let kind = |of: &Value| {
        let field = |name: &str| output::field(of, &format!("/{name}"));
        format!(
            "{} {}  {} components  {}  (setting {})",
            field("model_id"),
            field("embedding_version"),
            field("dimension"),
            field("metric"),
            field("number")
        )
    };
    let mut lines = Vec::new();
    match &told["serving"] {
        Value::Null => lines.push("serving  no vectors: the archive is empty".to_owned()),
        serving => lines.push(format!("serving  {}", kind(serving))),
    }
    if !told["next"].is_null() {
        lines.push(format!("next     {}", kind(&told["next"])));
    }
    let state = told["state"].as_str().unwrap_or("none");
    lines.push(match state {
        "none" => "state    no reindex is under way".into(),
        state => format!("state    {state}: {}", line(told)),
    });
    if let Some(count @ 1..) = told["documents_by_caller"].as_u64() {
        lines.push(format!(
            "note     callers sent the vectors of {count} documents; the server computes the next vectors of these documents from their texts"
        ));
    }
    if told["embedder_here"] == false {
        lines.push("note     this server has no embedder for the next vectors".into());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_it_is() {
        let told = json!({"state": "running", "phase": "catching_up", "chunks": 400, "chunks_done": 100, "documents": 4,
            "documents_done": 1, "chunks_per_s": 12.3, "left_s": 300.0, "obstacle": null});
        assert_eq!(
            line(&told),
            "catching up  [######..................]  100/400 chunks  1/4 documents  12/s  5 min left"
        );
        let told = json!({"state": "cleaning", "phase": "cleaning", "chunks": 4, "chunks_cleaned": 4, "obstacle": "no"});
        assert_eq!(line(&told), format!("cleaning  [{}]  4/4 chunks  ! no", "#".repeat(24)));
        assert_eq!(line(&json!({"state": "none"})), "done");
    }

    #[test]
    fn a_picture_names_both_settings() {
        let kind = |number| json!({"model_id": "m", "embedding_version": "1", "dimension": 8, "metric": "cosine", "number": number});
        let told = json!({"state": "stopped", "phase": "embedding", "serving": kind(1), "next": kind(2), "chunks": 0,
            "documents_by_caller": 3, "embedder_here": false});
        let text = picture(&told);
        for part in
            ["(setting 1)", "(setting 2)", "stopped: embedding", "3 documents", "no embedder"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            picture(&json!({"state": "none", "serving": null})).contains("the archive is empty")
        );
    }
}
