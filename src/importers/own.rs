//! Imports files of `vctx export`: checks a file, sends it to the server piece by piece, and
//! reports the result.

use std::path::Path;

use serde_json::json;

use vctx_cli::exit::{Exit, Failure};
use vctx_cli::export;
use vctx_cli::output;
use vctx_cli::portable;
use vctx_cli::target::Target;

/// Creates an agent from a file, under the name that the file contains or the name that the user
/// gave.
pub(super) async fn run(
    path: &Path,
    named: Option<&str>,
    dry_run: bool,
    target: &Target,
) -> Result<(), Failure> {
    let checked = portable::checked(path)?;
    let agent = named.unwrap_or(&checked.header.agent).to_owned();
    if dry_run {
        let mut told = checked.answer();
        told["agent"] = agent.as_str().into();
        told["dry_run"] = json!(true);
        if target.json {
            return output::value(&told);
        }
        output::line(&format!("the file is complete; the agent {agent} would be made from it"))?;
        return export::table(&checked);
    }
    let told = target.client().import(&agent, portable::opened(path)?).await;
    let told = told.map_err(|problem| {
        let failure = Failure::from(problem);
        // The argument that the server refuses is the file.
        match failure.code.as_str() {
            "INVALID_ARGUMENT" | "INVALID_JSON" => Failure { exit: Exit::Data, ..failure },
            _ => failure,
        }
    })?;
    if target.json {
        return output::value(&told);
    }
    let what =
        if told["made"] == true { "was made" } else { "exists already with the same content" };
    output::line(&format!("the agent {agent} {what}"))?;
    if checked.header.sealed_as != agent {
        let name = &checked.header.sealed_as;
        output::line(&format!(
            "the agent's digests and receipts keep the name {name}; the chunks of its archive get new ids"
        ))?;
    }
    export::table(&checked)
}
