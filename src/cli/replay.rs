//! `vctx replay`: rebuilds a past prompt and compares the prompt with the recorded digests.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::context;
use crate::exit::Failure;
use crate::output;
use crate::saved::save;
use crate::target::Target;
use crate::whose::Whose;

const EXAMPLES: &str = "\
Examples:
  vctx replay ada                               the prompts of an agent
  vctx replay ada --turn 17                     what the model saw in turn 17
  vctx replay ada --turn 17 --save request.json the exact bytes that were sent
  vctx replay ada --from 1 --limit 1000 --check whether each prompt can still be rebuilt exactly

Exit code 65: a rebuilt prompt differs from the sent prompt, or a text of the prompt was removed.";

/// Rebuild a past prompt, byte by byte
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    #[command(flatten)]
    whose: Whose,

    /// Number of the prompt [default: list all prompts]
    #[arg(long, value_name = "N")]
    turn: Option<u64>,

    /// Write the bytes of the request to a file
    #[arg(long, value_name = "FILE", requires = "turn")]
    save: Option<PathBuf>,

    /// First prompt of the list
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "turn")]
    from: u64,

    /// Maximum number of prompts to list
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "turn")]
    limit: u64,

    /// Rebuild each prompt of the list, and report whether the rebuilt prompt equals the sent
    /// prompt
    #[arg(long, conflicts_with = "turn")]
    check: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx replay`.
pub async fn run(asked: Replay) -> Result<(), Failure> {
    match asked.turn {
        Some(turn) => one(&asked, turn).await,
        None => list(&asked).await,
    }
}

async fn one(asked: &Replay, turn: u64) -> Result<(), Failure> {
    let answer = asked.target.client().prompt(&asked.whose.agent()?, turn).await?;
    if let Some(path) = &asked.save {
        save(path, answer["request"].as_str().unwrap_or_default())?;
    }
    match asked.target.json {
        true => output::value(&answer)?,
        false => output::line(&prompt_text(&answer)?)?,
    }
    proved(&answer)
}

/// Returns an error if the digests of a rebuilt prompt differ from the recorded digests.
fn proved(answer: &Value) -> Result<(), Failure> {
    if answer["exact"] == true {
        return Ok(());
    }
    let turn = &answer["turn"];
    Err(Failure::data(format!("prompt {turn} cannot be rebuilt as it was sent")))
}

/// Formats the rebuilt prompt, and states whether its bytes equal the bytes that were sent.
fn prompt_text(answer: &Value) -> Result<String, Failure> {
    let request: Value = serde_json::from_str(answer["request"].as_str().unwrap_or_default())
        .map_err(|error| Failure::internal(format!("the rebuilt request is not JSON: {error}")))?;
    let window = serde_json::json!({"messages": request["messages"], "tokens": answer["tokens"],
        "context_digest": answer["prompt"]["context_digest"]});
    let mut lines = vec![context::rendered(&window)];
    let offered = request["tools"].as_array().map_or(0, Vec::len);
    lines.push(format!(
        "turn {} of run {} · model {} · {offered} tools · {} bytes, sha256 {}",
        answer["turn"],
        output::cell(&output::field(answer, "/prompt/run"), output::CELL_CHARS_MAX),
        output::field(answer, "/prompt/model"),
        answer["request_bytes"],
        output::field(answer, "/prompt/request_digest"),
    ));
    for gone in answer["gone"].as_array().into_iter().flatten() {
        if gone["forgotten_at"].is_string() {
            lines.push(format!(
                "cannot be reproduced: {} was forgotten at {}",
                gone_text(gone),
                output::field(gone, "/forgotten_at")
            ));
            continue;
        }
        lines.push(match gone["expired_at"].as_str() {
            Some(at) => format!("removed by retention at {at}: {}", gone_text(gone)),
            None => format!("missing: {}", gone_text(gone)),
        });
    }
    for differs in answer["differs"].as_array().into_iter().flatten() {
        let seq = output::field(differs, "/seq");
        let at = if seq.is_empty() { seq } else { format!(" (message {seq})") };
        lines.push(format!(
            "DIFFERS: {}{at}: expected {}, found {}",
            output::field(differs, "/what"),
            output::field(differs, "/expected"),
            output::field(differs, "/found")
        ));
    }
    lines.push(match answer["exact"] == true {
        true => "exact: these are the bytes that were sent".to_owned(),
        false => "not exact: these are not the bytes that were sent".to_owned(),
    });
    Ok(lines.join("\n"))
}

fn gone_text(gone: &Value) -> String {
    match gone["seq"].as_u64() {
        Some(seq) => format!("message {seq}"),
        None => output::field(gone, "/id"),
    }
}

async fn list(asked: &Replay) -> Result<(), Failure> {
    let (client, agent) = (asked.target.client(), asked.whose.agent()?);
    let (mut from, mut left) = (asked.from, asked.limit);
    let (mut rows, mut wrong) = (Vec::new(), 0_u64);
    while left > 0 {
        let (page, next) =
            client.prompts(&agent, from, left.min(vctx_core::limits::PROMPTS_PAGE.1)).await?;
        left = left.saturating_sub(page.len() as u64);
        for prompt in &page {
            let mut verdict = String::new();
            if asked.check {
                let turn = output::number(prompt, "/turn");
                let exact = client.prompt(&agent, turn).await?["exact"] == true;
                wrong += u64::from(!exact);
                verdict = if exact { "exact" } else { "NOT EXACT" }.to_owned();
            }
            match asked.target.json {
                true if asked.check => {
                    let told =
                        serde_json::json!({"turn": prompt["turn"], "exact": verdict == "exact"});
                    output::line(&told.to_string())?;
                }
                true => output::line(&prompt.to_string())?,
                false => rows.push(row(prompt, verdict)),
            }
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    if !asked.target.json {
        let heads =
            ["turn", "when", "model", "tokens", "counted", "finish", "answer", "messages", "", ""];
        output::line(&output::table(&heads, &[0, 3, 4, 6], &rows))?;
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(Failure::data(format!("{wrong} prompts differ from the sent requests"))),
    }
}

/// Returns the table row of a prompt.
fn row(prompt: &Value, verdict: String) -> Vec<String> {
    let field = |name: &str| output::cell(&output::field(prompt, name), NAME_CHARS_MAX);
    let finish = if prompt["waits"] == true { "(waits)".to_owned() } else { field("/finish") };
    let flag = if prompt["variance_flag"] == true { "counts differ" } else { "" };
    let last = output::number(prompt, "/next_seq").saturating_sub(1);
    vec![
        field("/turn"),
        field("/created_at"),
        field("/model"),
        field("/token_estimate"),
        field("/usage/prompt"),
        finish,
        field("/answer_seq"),
        format!("{}–{last}", field("/head_seq")),
        flag.to_owned(),
        verdict,
    ]
}

/// Maximum number of characters of a name in the table of prompts.
const NAME_CHARS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_prompt_is_one_line() {
        let prompt = json!({"turn": 7, "created_at": "t", "model": "m", "token_estimate": 90, "usage": {"prompt": 99},
            "finish": "stop", "answer_seq": 12, "head_seq": 3, "next_seq": 12, "variance_flag": true, "waits": false});
        assert_eq!(
            row(&prompt, "exact".into()),
            ["7", "t", "m", "90", "99", "stop", "12", "3–11", "counts differ", "exact"]
        );
    }

    #[test]
    fn what_is_gone_and_what_differs_is_said_by_name() {
        let answer = json!({"turn": 7, "exact": false, "request": "{\"messages\": []}", "request_bytes": 16,
            "gone": [{"seq": 4, "expired_at": "t"}, {"id": "summary:3", "expired_at": null}],
            "differs": [{"what": "it changed", "seq": 5, "expected": "a", "found": "b"}]});
        let text = prompt_text(&answer).unwrap();
        for part in [
            "removed by retention at t: message 4",
            "missing: summary:3",
            "DIFFERS: it changed (message 5): expected a, found b",
            "not exact",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(proved(&answer).is_err());
        assert!(proved(&json!({"exact": true})).is_ok());
    }
}
