//! `vctx judge`: a record of prompts with a context and of the answers to them, for a judge, and
//! how good they are on average.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use crate::exit::{Exit, Failure};
use crate::judge_model::JudgeModel;
use crate::judge_record::{MEASURES, Record, record};
use crate::judge_verdicts::{GivenVerdict, read_verdicts};
use crate::output;
use crate::saved::Saved;
use crate::target::Target;
use crate::whose::Whose;
use vctx_client::Client;
use vctx_core::limits::PROMPTS_PAGE;

/// Maximum number of prompts that one command judges; each takes about four requests.
const TURNS_MAX: u64 = 10_000;
/// Number of characters of a question in the table.
const QUESTION_CHARS: usize = 32;

const EXAMPLES: &str = "\
Three measures from 0 to 1 for each prompt that a context was built for. The built-in judge needs no model:
  faithfulness   share of the answer's statements whose names, numbers and words are in the texts that the model saw
  relevance      share of the context's texts, by grade, that have a word of the question
  completeness   share of the question's parts for which the context has a text of a good grade, or which the window answers

Examples:
  vctx judge ada                             the newest 100 prompts, and the averages
  vctx judge ada --prompt 17                 one prompt
  vctx judge ada --turns 500 --out record.jsonl   one line for each prompt: question, context, answer, measures
  my-judge < record.jsonl > verdicts.jsonl   a judge of yours: a model or a script
  vctx judge ada --merge verdicts.jsonl      its averages beside the built-in ones
  vctx judge ada --model --config vctx.toml  the model of [models.judge] beside the built-in judge

Each line of verdicts is {\"prompt\": 17, \"faithfulness\": 0.9, \"relevance\": 0.8, \"completeness\": null}; null: nothing to judge.
The record has texts of the memory, so only you can read its file.";

/// Judge prompts with a context: is the answer faithful, the context relevant and complete?
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Judge {
    #[command(flatten)]
    whose: Whose,

    /// Number of prompts to judge, the newest ones
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with_all = ["prompt", "merge"],
        value_parser = clap::value_parser!(u64).range(1..=TURNS_MAX))]
    turns: u64,

    /// Number of the only prompt to judge
    #[arg(long, value_name = "N", conflicts_with = "merge")]
    prompt: Option<u64>,

    /// Write one line of JSON for each prompt to a file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Read the verdicts of another judge, and judge the same prompts
    #[arg(long, value_name = "FILE")]
    merge: Option<PathBuf>,

    /// Also ask the model that `[models.judge]` of the configuration names
    #[arg(long, conflicts_with = "merge")]
    model: bool,

    /// Configuration file with the model, as for `vctx serve`
    #[arg(long, value_name = "FILE", requires = "model")]
    config: Option<PathBuf>,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx judge`.
pub async fn run(asked: Judge) -> Result<(), Failure> {
    let (client, agent) = (asked.target.client(), asked.whose.agent()?);
    let given = asked.merge.as_deref().map(|path| read_verdicts(path, TURNS_MAX)).transpose()?;
    let turns = match (&given, asked.prompt) {
        (Some(given), _) => given.iter().map(|verdict| verdict.prompt).collect(),
        (None, Some(turn)) => vec![turn],
        (None, None) => newest(&client, &agent, asked.turns).await?,
    };
    let names_them = given.is_some() || asked.prompt.is_some();
    let mut given = given.unwrap_or_default();
    let model = match asked.model {
        true => Some(JudgeModel::open(&client, &agent, asked.config.as_deref()).await?),
        false => None,
    };
    let mut out = asked.out.as_deref().map(begin).transpose()?;
    let mut records = Vec::with_capacity(turns.len());
    for turn in turns {
        match record(&client, &agent, turn).await? {
            Some((record, told)) => {
                if let Some(model) = &model {
                    given.push(model.verdict(turn, &told).await);
                }
                if let Some((file, path)) = &mut out {
                    let line = line(told, given.get(records.len()));
                    file.write_all(line.as_bytes()).map_err(|error| unwritten(path, &error))?;
                }
                records.push(record);
            }
            None if names_them => {
                return Err(without_context(format!("prompt {turn} of {agent} shows no context")));
            }
            None => {}
        }
    }
    if records.is_empty() {
        return Err(without_context(format!(
            "none of the newest {} prompts of {agent} shows a context",
            asked.turns
        )));
    }
    if let Some((file, path)) = out {
        file.finish().map_err(|error| unwritten(path, &error))?;
    }
    if let Some(model) = &model {
        model.warn(&given);
    }
    let averages = averages(&agent, &records, &given);
    output::told(asked.target.json, &averages, |averages| match asked.out {
        Some(_) => table_of(averages),
        None => format!("{}\n\n{}", table(&records), table_of(averages)),
    })
}

/// Begins the file of the record. It gets its name when the record is complete.
fn begin(path: &Path) -> Result<(Saved, &Path), Failure> {
    Saved::begin(path).map(|file| (file, path)).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::writing(path.display(), error)
}

fn without_context(message: String) -> Failure {
    Failure::new(Exit::NotFound, "CONTEXT_NOT_FOUND", message).next(
        "`vctx replay AGENT` lists the prompts; docs/how-to/context.md says which get a context",
    )
}

/// Returns the numbers of those of the newest prompts that show a context, oldest first.
async fn newest(client: &Client, agent: &str, turns: u64) -> Result<Vec<u64>, Failure> {
    let all = output::number(&client.state(agent).await?, "/turns");
    let (mut from, mut left) = ((all + 1).saturating_sub(turns).max(1), turns);
    let mut found = Vec::new();
    while left > 0 {
        let (page, next) = client.prompts(agent, from, left.min(PROMPTS_PAGE.1)).await?;
        left = left.saturating_sub(page.len() as u64);
        let shown = page.iter().filter(|prompt| prompt["pack"].is_string());
        found.extend(shown.map(|prompt| output::number(prompt, "/turn")));
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(found)
}

/// Returns the line of a prompt in the record.
fn line(mut told: Value, given: Option<&GivenVerdict>) -> String {
    if let Some(given) = given {
        told["judge"] = named(given.measures);
    }
    format!("{told}\n")
}

/// Returns measures as an object.
fn named(measures: [Option<f64>; 3]) -> Value {
    MEASURES
        .iter()
        .map(|name| (*name).to_owned())
        .zip(measures.map(|value| json!(value)))
        .collect::<Map<_, _>>()
        .into()
}

/// Returns the averages of the built-in judge, and those of the given verdicts if there are any.
fn averages(agent: &str, records: &[Record], given: &[GivenVerdict]) -> Value {
    let built_in: Vec<[Option<f64>; 3]> = records.iter().map(|record| record.measures).collect();
    let mut told = json!({"agent": agent, "prompts": records.len(), "built_in": mean(&built_in)});
    if !given.is_empty() {
        let measures: Vec<[Option<f64>; 3]> = given.iter().map(|one| one.measures).collect();
        told["judge"] = mean(&measures);
    }
    told
}

/// Returns the mean of each measure, and the number of prompts that have it.
fn mean(measures: &[[Option<f64>; 3]]) -> Value {
    let of = |at: usize| {
        let values: Vec<f64> = measures.iter().filter_map(|measures| measures[at]).collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        json!({"mean": mean, "prompts": values.len()})
    };
    MEASURES
        .iter()
        .enumerate()
        .map(|(at, name)| ((*name).to_owned(), of(at)))
        .collect::<Map<_, _>>()
        .into()
}

/// Formats the measures of each prompt as a table.
fn table(records: &[Record]) -> String {
    let row = |record: &Record| {
        let mut row = vec![record.turn.to_string()];
        row.extend(record.measures.map(two_digits));
        row.push(output::cell(&record.question, QUESTION_CHARS));
        row
    };
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    let heads: Vec<&str> = std::iter::once("prompt").chain(MEASURES).chain(["question"]).collect();
    output::table(&heads, &[0, 1, 2, 3], &rows)
}

/// Formats averages as a table.
fn table_of(averages: &Value) -> String {
    let judges: Vec<(&str, &str)> = [("/built_in", "built in"), ("/judge", "judge")]
        .into_iter()
        .filter(|(pointer, _)| averages.pointer(pointer).is_some())
        .collect();
    let row = |name: &&str| {
        let of = |(judge, _): &(&str, &str)| {
            let mean = averages.pointer(&format!("{judge}/{name}/mean"));
            let count = output::field(averages, &format!("{judge}/{name}/prompts"));
            [two_digits(mean.and_then(Value::as_f64)), count]
        };
        std::iter::once((*name).to_owned())
            .chain(judges.iter().flat_map(of))
            .collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = MEASURES.iter().map(row).collect();
    let heads: Vec<&str> = std::iter::once("average")
        .chain(judges.iter().flat_map(|(_, head)| [*head, "prompts"]))
        .collect();
    output::table(&heads, &[1, 2, 3, 4], &rows)
}

fn two_digits(measure: Option<f64>) -> String {
    measure.map_or("-".to_owned(), |measure| format!("{measure:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_count_only_what_was_measured() {
        let record = |turn: u64, measures: [Option<f64>; 3]| Record {
            turn,
            measures,
            question: "Who is my dentist, and who is my doctor?".to_owned(),
        };
        let records = [record(4, [Some(1.0), Some(0.5), None]), record(9, [Some(0.5), None, None])];
        let given = [
            GivenVerdict { prompt: 4, measures: [Some(0.2), Some(0.4), Some(1.0)] },
            GivenVerdict { prompt: 9, measures: [None, Some(0.6), Some(0.0)] },
        ];
        let told = averages("ada", &records, &given);
        assert_eq!(
            table_of(&told),
            "average       built in  prompts  judge  prompts\n\
             faithfulness      0.75        2   0.20        1\n\
             relevance         0.50        1   0.50        2\n\
             completeness         -        0   0.50        2"
        );
        assert_eq!(
            table(&records),
            "prompt  faithfulness  relevance  completeness  question\n     \
             4          1.00       0.50             -  Who is my dentist, and who is m…\n     \
             9          0.50          -             -  Who is my dentist, and who is m…"
        );
        assert!(averages("ada", &records, &[]).get("judge").is_none());
        let line: Value = serde_json::from_str(&line(json!({"prompt": 4}), given.first())).unwrap();
        assert_eq!(
            line["judge"],
            json!({"faithfulness": 0.2, "relevance": 0.4, "completeness": 1.0})
        );
    }
}
