//! The suite of messages that need no context, and of questions that the memory cannot answer.

use std::path::Path;

use serde_json::{Value, json};

use super::figures::{Figures, flag};
use super::suites::WINDOW;
use crate::eval::caller::Caller;
use crate::eval::corpus;
use crate::eval::host::Host;
use crate::eval::progress::Progress;
use vctx_cli::exit::Failure;

/// Number of messages of small talk, commands and general questions.
const COMMANDS: usize = 250;

/// Messages that need no context: commands and general questions (CLINC150), and questions that the
/// window answers (BFCL memory); and questions that the memory cannot answer, of another memory.
pub(super) async fn run(
    host: &Host,
    memory: &Path,
    commands: &Path,
    most: usize,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new("harm", "a context that shows something, or says nothing");
    let data = corpus::json(memory)?;
    let questions = data["questions"].as_array().cloned().unwrap_or_default();
    let talks = data["conversations"].as_object().cloned().unwrap_or_default();
    let said = corpus::json(commands)?;
    let said: Vec<Value> = said["test"].as_array().cloned().unwrap_or_default();
    let every = (said.len() / COMMANDS).max(1);
    let mut said = said.iter().step_by(every).take(COMMANDS).map(|one| one[0].clone());
    let progress = Progress::new("context harm", talks.len());
    let each = COMMANDS.div_ceil(talks.len().max(1));
    for (name, messages) in &talks {
        let agent = host.agent(&format!("context-harm-{name}"));
        let caller = Caller::create(host.client(), agent, WINDOW).await?;
        for message in messages.as_array().into_iter().flatten() {
            caller.append(message["role"].as_str().unwrap_or("user"), &message["content"]).await?;
        }
        let shows = |told: &Value| flag(told["found"] == true);
        let is_own = |question: &&Value| question["scenario"] == name.as_str();
        for asked in questions.iter().filter(is_own).take(most) {
            let told = caller.build_context(&json!({"question": asked["question"]})).await?;
            figures.note("answered by the window", shows(&told));
        }
        caller.evict_all().await?;
        for text in said.by_ref().take(each.min(most)) {
            caller.append("user", &text).await?;
            figures.note("commands", shows(&caller.build_context(&json!({})).await?));
        }
        for asked in questions.iter().filter(|one| !is_own(one)).step_by(3).take(most) {
            let told = caller.build_context(&json!({"question": asked["question"]})).await?;
            figures.note("unanswerable, says so", 1.0 - shows(&told));
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}
