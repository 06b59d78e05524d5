//! Reads the verdicts of another judge, one line of JSON for each prompt.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use crate::args;
use crate::exit::Failure;
use crate::judge_record::MEASURES;

/// Maximum size of a file of verdicts, in bytes: a line has about a hundred.
const VERDICTS_BYTES_MAX: u64 = 4 << 20;
/// A line as it should be, for the suggested next step.
const LINE: &str = r#"{"prompt": 17, "faithfulness": 0.9, "relevance": 0.8, "completeness": null}"#;

/// A verdict of another judge.
#[derive(Debug, PartialEq)]
pub(crate) struct GivenVerdict {
    /// Number of the prompt.
    pub prompt: u64,
    /// Faithfulness, relevance and completeness; `None` where there was nothing to judge.
    pub measures: [Option<f64>; 3],
}

/// Reads a file of verdicts: at least one and at most `lines_max`, each for another prompt.
pub(crate) fn read_verdicts(path: &Path, lines_max: u64) -> Result<Vec<GivenVerdict>, Failure> {
    let text = args::file(path, VERDICTS_BYTES_MAX)?;
    let refuse = |why: String| {
        Failure::data(format!("{}: {why}", path.display()))
            .next(format!("one line for each prompt of `vctx judge --out`: {LINE}"))
    };
    verdicts(&text, lines_max).map_err(refuse)
}

fn verdicts(text: &str, lines_max: u64) -> Result<Vec<GivenVerdict>, String> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let verdict = verdict(line).map_err(|why| format!("line {}: {why}", at + 1))?;
        if !seen.insert(verdict.prompt) {
            return Err(format!("line {}: prompt {} is there twice", at + 1, verdict.prompt));
        }
        found.push(verdict);
        if found.len() as u64 > lines_max {
            return Err(format!("more than {lines_max} verdicts: give them in several files"));
        }
    }
    if found.is_empty() { Err("no verdicts".to_owned()) } else { Ok(found) }
}

fn verdict(line: &str) -> Result<GivenVerdict, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
    let map = value.as_object().ok_or("not a JSON object")?;
    let is_known = |name: &&String| *name == "prompt" || MEASURES.contains(&name.as_str());
    if let Some(name) = map.keys().find(|name| !is_known(name)) {
        return Err(format!("{name}: unknown field: use prompt, {}", MEASURES.join(", ")));
    }
    let prompt = map.get("prompt").ok_or("prompt: missing")?;
    let prompt = prompt.as_u64().filter(|prompt| *prompt > 0);
    let prompt = prompt.ok_or("prompt: use the number of a prompt, from 1")?;
    let mut measures = [None; 3];
    for (measure, name) in measures.iter_mut().zip(MEASURES) {
        *measure = match map.get(name) {
            None => return Err(format!("{name}: missing: give null if there is nothing to judge")),
            Some(Value::Null) => None,
            Some(given) => {
                let number = given.as_f64().filter(|number| (0.0..=1.0).contains(number));
                Some(number.ok_or_else(|| format!("{name}: {given}: use a number from 0 to 1"))?)
            }
        };
    }
    Ok(GivenVerdict { prompt, measures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_line_by_line_and_refused_with_line_and_field() {
        let good = format!("{LINE}\n\n{}\n", LINE.replace("17", "18").replace("null", "1"));
        let read = verdicts(&good, 2).unwrap();
        assert_eq!(read[0], GivenVerdict { prompt: 17, measures: [Some(0.9), Some(0.8), None] });
        assert_eq!(read[1].measures[2], Some(1.0));
        for (text, said) in [
            ("", "no verdicts"),
            ("[1]", "line 1: not a JSON object"),
            (&format!("{LINE}\n{{"), "line 2: not JSON"),
            (&format!("{LINE}\n{LINE}"), "line 2: prompt 17 is there twice"),
            (&LINE.replace("17", "\"17\""), "prompt: use the number of a prompt"),
            (&LINE.replace("17", "0"), "prompt: use the number of a prompt"),
            (&LINE.replace("0.9", "1.2"), "faithfulness: 1.2: use a number from 0 to 1"),
            (&LINE.replace("0.9", "\"yes\""), "faithfulness: \"yes\": use a number from 0 to 1"),
            (&LINE.replace("\"relevance\"", "\"relevant\""), "relevant: unknown field"),
            (&LINE.replace(", \"completeness\": null", ""), "completeness: missing"),
            (&good, "more than 1 verdicts"),
        ] {
            let refused = verdicts(text, 1).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
