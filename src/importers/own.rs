//! Files of `vctx export`: checked here before anything is sent, sent piece by piece, told what came of it.

use std::path::Path;

use serde_json::json;

use vctx_cli::exit::Failure;
use vctx_cli::export;
use vctx_cli::output;
use vctx_cli::portable;
use vctx_cli::target::Target;

/// Makes an agent of a file, under the name in it or another one.
pub(super) async fn run(
    path: &Path,
    named: Option<&str>,
    dry_run: bool,
    target: &Target,
) -> Result<(), Failure> {
    let checked = portable::checked(path)?;
    let agent = named.unwrap_or(&checked.header.agent).to_owned();
    if dry_run {
        let mut told = checked.told();
        told["agent"] = agent.as_str().into();
        told["dry_run"] = json!(true);
        if target.json {
            return output::value(&told);
        }
        output::line(&format!("the file is whole; the agent {agent} would be made of it"))?;
        return export::table(&checked);
    }
    let told = target.client().import(&agent, portable::opened(path)?).await?;
    if target.json {
        return output::value(&told);
    }
    let what = if told["made"] == true { "was made" } else { "was there already, just so" };
    output::line(&format!("the agent {agent} {what}"))?;
    if checked.header.sealed_as != agent {
        let name = &checked.header.sealed_as;
        output::line(&format!(
            "its digests and receipts go on under the name {name}; ids of chunks of its archive are new"
        ))?;
    }
    export::table(&checked)
}
