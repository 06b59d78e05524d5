//! Prints the result of an import, as a table or as one JSON object.

use serde_json::{Value, json};

use super::write::{Order, Outcome};
use vctx_cli::exit::Failure;
use vctx_cli::output;

/// Prints what an import wrote, what it found already stored, and what it skipped.
pub(super) fn print_outcome(
    order: &Order<'_>,
    outcome: &Outcome,
    as_json: bool,
) -> Result<(), Failure> {
    if as_json {
        return output::value(&object(order, outcome));
    }
    let new = if order.dry_run { "would be new" } else { "new" };
    let mut rows: Vec<Vec<String>> = outcome
        .rows
        .iter()
        .map(|row| {
            let numbers = [row.new.to_string(), row.there.to_string()];
            [vec![row.what.to_owned(), row.to.to_owned()], numbers.to_vec(), vec![String::new()]]
                .concat()
        })
        .collect();
    rows.extend(outcome.left.iter().map(|left| {
        let why = format!("{}: {}", left.items, left.why);
        vec![
            output::cell(&left.what, output::CELL_CHARS_MAX),
            "left out".into(),
            String::new(),
            String::new(),
            why,
        ]
    }));
    let agent = match (outcome.made, order.dry_run) {
        (true, true) => format!("the agent {} would be made", order.agent),
        (true, false) => format!("the agent {} was made", order.agent),
        (false, _) => format!("the agent {} exists already", order.agent),
    };
    output::line(&agent)?;
    output::line(&output::table(&["what", "where", new, "there", "why"], &[2, 3], &rows))
}

fn object(order: &Order<'_>, outcome: &Outcome) -> Value {
    let taken: Vec<Value> = outcome
        .rows
        .iter()
        .map(|row| json!({"what": row.what, "to": row.to, "new": row.new, "there": row.there}))
        .collect();
    let left: Vec<Value> = outcome
        .left
        .iter()
        .map(|left| json!({"what": left.what, "items": left.items, "why": left.why}))
        .collect();
    json!({"agent": order.agent, "from": order.from, "dry_run": order.dry_run, "made": outcome.made, "taken": taken, "left": left})
}
