//! `vctx replay`: what was sent to the model, put together again and held against the digests of then.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::context;
use crate::exit::Failure;
use crate::output;
use crate::saved::save;
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  vctx replay ada                               the prompts of an agent
  vctx replay ada --turn 17                     what the model saw in turn 17
  vctx replay ada --turn 17 --save request.json the very bytes that were sent
  vctx replay ada --from 1 --limit 1000 --check whether all of them can still be put together

Exit code 65: something is not as it was sent, or its text is gone.";

/// Put a past prompt together again, byte by byte
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    /// The agent
    #[arg(value_name = "AGENT")]
    agent: String,

    /// Number of the prompt; none lists them
    #[arg(long, value_name = "N")]
    turn: Option<u64>,

    /// Write the bytes of the request to a file
    #[arg(long, value_name = "FILE", requires = "turn")]
    save: Option<PathBuf>,

    /// First prompt of the list
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "turn")]
    from: u64,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "turn")]
    limit: u64,

    /// Put each of the list together and say whether it is exact
    #[arg(long, conflicts_with = "turn")]
    check: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs the command.
pub async fn run(asked: Replay) -> Result<(), Failure> {
    match asked.turn {
        Some(turn) => one(&asked, turn).await,
        None => list(&asked).await,
    }
}

async fn one(asked: &Replay, turn: u64) -> Result<(), Failure> {
    let answer = asked.target.client().prompt(&asked.agent, turn).await?;
    if let Some(path) = &asked.save {
        save(path, answer["request"].as_str().unwrap_or_default())?;
    }
    match asked.target.json {
        true => output::value(&answer)?,
        false => output::line(&shown(&answer)?)?,
    }
    proved(&answer)
}

/// Fails where a prompt is not what was sent.
fn proved(answer: &Value) -> Result<(), Failure> {
    if answer["exact"] == true {
        return Ok(());
    }
    let turn = &answer["turn"];
    Err(Failure::data(format!("prompt {turn} cannot be put together as it was sent")))
}

/// The prompt as a model saw it, and what can be said of it.
fn shown(answer: &Value) -> Result<String, Failure> {
    let request: Value = serde_json::from_str(answer["request"].as_str().unwrap_or_default())
        .map_err(|error| Failure::internal(format!("the request is no JSON: {error}")))?;
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
                named(gone),
                output::field(gone, "/forgotten_at")
            ));
            continue;
        }
        lines.push(match gone["expired_at"].as_str() {
            Some(at) => format!("gone by retention at {at}: {}", named(gone)),
            None => format!("not there any more: {}", named(gone)),
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

fn named(gone: &Value) -> String {
    match gone["seq"].as_u64() {
        Some(seq) => format!("message {seq}"),
        None => output::field(gone, "/id"),
    }
}

async fn list(asked: &Replay) -> Result<(), Failure> {
    let client = asked.target.client();
    let (mut from, mut left) = (asked.from, asked.limit);
    let (mut rows, mut wrong) = (Vec::new(), 0_u64);
    while left > 0 {
        let (page, next) =
            client.prompts(&asked.agent, from, left.min(vctx_core::limits::PROMPTS_PAGE.1)).await?;
        left = left.saturating_sub(page.len() as u64);
        for prompt in &page {
            let mut verdict = String::new();
            if asked.check {
                let turn = output::number(prompt, "/turn");
                let exact = client.prompt(&asked.agent, turn).await?["exact"] == true;
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
        wrong => Err(Failure::data(format!("{wrong} prompts are not as they were sent"))),
    }
}

/// A prompt in one line.
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

/// Characters of a name in the table.
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
        let text = shown(&answer).unwrap();
        for part in [
            "gone by retention at t: message 4",
            "not there any more: summary:3",
            "DIFFERS: it changed (message 5): expected a, found b",
            "not exact",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(proved(&answer).is_err());
        assert!(proved(&json!({"exact": true})).is_ok());
    }
}
