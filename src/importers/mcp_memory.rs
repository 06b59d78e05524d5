//! Imports the file of MCP's reference memory server, which has one entity or relation on each
//! line.
//!
//! Each observation and each relation becomes a recall entry that names its subject.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::plan::{Entry, Plan};
use super::read::{Choice, lines_of, text, text_of, too_many};
use vctx_cli::exit::Failure;
use vctx_core::memory::Labels;

const OBSERVATIONS: &str = "observations";
const RELATIONS: &str = "relations";
const ENTITIES: &str = "entities without observations";

/// Reads the file of MCP's reference memory server into the import plan.
pub(super) fn read(path: &Path, choice: &Choice, plan: &mut Plan) -> Result<(), Failure> {
    if choice.only.is_some() {
        return Err(Failure::usage("--only does not go with this file: it holds one memory"));
    }
    let rows = lines_of(path, &text_of(path)?)?;
    let mut seen = BTreeSet::new();
    for (line, row) in &rows {
        let place = format!("{} line {line}", path.display());
        let said = match text(row, "type", &place)? {
            "entity" => entity(row, &place, choice, plan)?,
            "relation" => vec![(RELATIONS, relation(row, &place, choice, plan)?)],
            other => {
                return Err(Failure::data(format!("{place}: the type `{other}` is not known")));
            }
        };
        for (what, content) in said {
            if plan.is_full() {
                return Err(too_many(&place));
            }
            match seen.insert(content.clone()) {
                true => plan.entry(Entry {
                    what,
                    role: "assistant",
                    content,
                    name: None,
                    said_at: None,
                    labels: Labels::default(),
                }),
                false => plan.left(what, 1, "twice in the file; imported once"),
            }
        }
    }
    Ok(())
}

fn entity(
    row: &Map<String, Value>,
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<Vec<(&'static str, String)>, Failure> {
    choice.check(row, &["type", "name", "entityType", "observations"], place, plan)?;
    let about = format!("{} ({})", text(row, "name", place)?, text(row, "entityType", place)?);
    let fault = || Failure::data(format!("{place}: `observations` must be a list of texts"));
    let observations = row.get("observations").and_then(Value::as_array).ok_or_else(fault)?;
    if observations.is_empty() {
        return Ok(vec![(ENTITIES, about)]);
    }
    let said = observations.iter().map(|observation| {
        let text = observation.as_str().ok_or_else(fault)?;
        Ok((OBSERVATIONS, format!("{about}: {text}")))
    });
    said.collect()
}

fn relation(
    row: &Map<String, Value>,
    place: &str,
    choice: &Choice,
    plan: &mut Plan,
) -> Result<String, Failure> {
    choice.check(row, &["type", "from", "to", "relationType"], place, plan)?;
    let [from, kind, to] = ["from", "relationType", "to"].map(|name| text(row, name, place));
    Ok(format!("{} {} {}", from?, kind?, to?))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Limits;
    use super::*;

    fn planned(file: &str) -> Result<Plan, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory.jsonl");
        std::fs::write(&path, file).unwrap();
        let mut plan = Plan::new(Limits { block_bytes_max: 100 });
        read(&path, &Choice::default(), &mut plan).map(|()| plan)
    }

    #[test]
    fn each_observation_and_relation_says_what_it_is_about() {
        let file = r#"{"type":"entity","name":"Bea","entityType":"person","observations":["likes tea","sails","likes tea"]}
{"type":"entity","name":"Elba","entityType":"place","observations":[]}

{"type":"relation","from":"Bea","to":"Elba","relationType":"sails_to"}"#;
        let plan = planned(file).unwrap();
        let said: Vec<&str> = plan.entries.iter().map(|entry| entry.content.as_str()).collect();
        assert_eq!(
            said,
            ["Bea (person): likes tea", "Bea (person): sails", "Elba (place)", "Bea sails_to Elba"]
        );
        assert_eq!((plan.left[0].what.as_str(), plan.left[0].items), (OBSERVATIONS, 1));
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_line() {
        for (file, told) in [
            ("{\"type\":\"event\"}", "line 1: the type `event` is not known"),
            (
                "\n{\"type\":\"relation\",\"from\":\"a\",\"to\":\"b\"}",
                "line 2: `relationType` must be a text",
            ),
            (
                "{\"type\":\"entity\",\"name\":\"a\",\"entityType\":\"b\",\"observations\":[1]}",
                "line 1: `observations` must be a list of texts",
            ),
            (
                "{\"type\":\"relation\",\"from\":\"a\",\"to\":\"b\",\"relationType\":\"c\",\"weight\":1}",
                "line 1: the attribute `weight` is not known",
            ),
        ] {
            let fault = planned(file).unwrap_err().message;
            assert!(fault.ends_with(told), "{fault}");
        }
    }
}
