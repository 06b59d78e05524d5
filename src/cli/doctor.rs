//! `vctx doctor`: tests every database feature that the server needs, or checks a running
//! deployment.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, Remote};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::secrets::{password_of, secret_file, variable_of};
use vctx_client::paths;
use vctx_server::checks::{self, Step, by_hand};
use vctx_server::doctor::{self, End, LEFTOVER_S, Order, Outcome, Report, Row};
use vctx_server::store::{Credentials, Endpoint, INDEX_USER, USER_PASSWORDS};

const EXAMPLES: &str = "\
The rights of the database user decide which checks are possible: for an administrator, the doctor creates a temporary database; for a user who
may create collections, it creates temporary collections; for any other user, it skips most checks and prints the reason. The doctor removes its
test data at the end, after an error and after a signal; if the doctor is killed, the next doctor removes the data. The endpoint comes from the
environment as for `vctx setup`; if the environment names no endpoint, the doctor tests the embedded engine of a running `vctx serve`.

Examples:
  vctx doctor                                            the engine of the running `vctx serve`
  ARANGO_RW_UDS=/run/arangod/rw.sock ARANGO_USER=root ARANGO_PASSWORD_FILE=./password vctx doctor --markdown > report.md
  vctx doctor --quick --only vectors.ready               one check
  vctx doctor --health --json                            a running deployment; reads only

Exit codes: 0 no check failed, 65 a check failed, 69 the database does not answer, 75 interrupted, 77 credentials refused, 78 wrong configuration.";

/// Try every database feature that the server relies on, and remove all test data again
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Socket of the database, instead of ARANGO_RW_UDS and ARANGO_RO_UDS
    #[arg(long, value_name = "SOCKET")]
    endpoint: Option<String>,

    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check a running deployment instead: schema, indexes, lag, clock, sizes, backlog, rights.
    /// Reads only
    #[arg(long)]
    health: bool,

    /// Skip checks that take more than a few seconds
    #[arg(long, conflicts_with = "health")]
    quick: bool,

    /// Run only this check (may be given more than once)
    #[arg(long, value_name = "ID")]
    only: Vec<String>,

    /// List the checks
    #[arg(long)]
    list: bool,

    /// Answer in JSON: one object with counts and rows
    #[arg(long)]
    pub json: bool,

    /// Print a Markdown table, for an issue
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Age in seconds at which the test data of a killed doctor is removed; 0 also removes the data
    /// of a running doctor
    #[arg(long, value_name = "SECONDS", default_value_t = LEFTOVER_S)]
    sweep_after: u64,
}

/// Runs `vctx doctor`.
pub async fn run(arguments: Doctor) -> Result<(), Failure> {
    if arguments.list {
        return list(arguments.json);
    }
    for id in &arguments.only {
        let check = checks::by_name(id).ok_or_else(|| {
            Failure::usage(format!("{id} is no check")).next("see `vctx doctor --list`")
        })?;
        if (check.step == Step::Health) != arguments.health {
            let how = if arguments.health { "without" } else { "with" };
            return Err(Failure::usage(format!("the check {id} runs only {how} --health")));
        }
    }
    let order = order(&arguments)?;
    let report = doctor::examine(&order, signalled()?, &progress).await;
    print(&arguments, &report)?;
    ended(&report)
}

/// The doctor prints progress on stderr, because stdout is for the report.
fn progress(step: &str) {
    eprintln!("doctor: {step} …");
}

/// Waits for a signal that stops the doctor.
fn signalled() -> Result<impl Future<Output = ()>, Failure> {
    let watch = |kind| {
        signal(kind)
            .map_err(|error| Failure::internal(format!("cannot watch for signals: {error}")))
    };
    let (mut interrupt, mut terminate) =
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

fn configuration(faults: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Configuration, "CONFIGURATION", faults.to_string())
}

fn order(arguments: &Doctor) -> Result<Order, Failure> {
    let mut config = Config::load(arguments.config.as_deref()).map_err(configuration)?;
    let endpoint = |text: &String| Endpoint::parse(text).map_err(configuration);
    if let (Some(given), true) = (&arguments.endpoint, config.store.rw_uds.is_empty()) {
        endpoint(given)?;
        config.store.rw_uds.clone_from(given);
    }
    let mut remote = match config.remote().map_err(configuration)? {
        Some(remote) => remote,
        None => embedded(&config)?,
    };
    if let Some(socket) = &arguments.endpoint {
        remote.rw = endpoint(socket)?;
        remote.ro = remote.rw.clone();
    }
    Ok(Order {
        index_password: remote.index_credentials.clone().map(|index| index.password),
        store: remote.settings(&config, false),
        index_user: config.store.index_user.clone(),
        application: application()?,
        layout: config.layout(),
        retention: config.retention,
        index_rows_min: config.archive.index_rows_min,
        health: arguments.health,
        quick: arguments.quick,
        only: arguments.only.clone(),
        leftover_s: arguments.sweep_after,
    })
}

/// Returns the credentials of the database users that `vctx setup --users` creates, except the
/// index user. The passwords come from the variables that `vctx setup` reads.
fn application() -> Result<Vec<Credentials>, Failure> {
    let mut known = Vec::new();
    for (user, name) in USER_PASSWORDS.into_iter().filter(|(user, _)| *user != INDEX_USER) {
        if let Some(password) = password_of(name).map_err(configuration)? {
            known.push(Credentials { user: user.into(), password });
        }
    }
    Ok(known)
}

/// Returns an administrator's connection to the embedded engine of a `vctx serve` on this machine.
fn embedded(config: &Config) -> Result<Remote, Failure> {
    let stated = &config.server.data_dir;
    let data =
        if stated.as_os_str().is_empty() { paths::default_data_dir() } else { stated.clone() };
    let endpoint =
        |name: &str| Endpoint::parse(&data.join(name).to_string_lossy()).map_err(configuration);
    let password = |name: &str| {
        let path = data.join(format!("{name}.password"));
        secret_file(Path::new(&path)).map_err(|faults| {
            configuration(faults).next(
                "start `vctx serve`, or name a database: ARANGO_RW_UDS, ARANGO_USER, ARANGO_PASSWORD_FILE",
            )
        })
    };
    let root = Credentials { user: "root".into(), password: password("root")? };
    Ok(Remote {
        ro: endpoint("arangod-ro.sock")?,
        rw: endpoint("arangod.sock")?,
        ro_credentials: root.clone(),
        rw_credentials: root,
        index_credentials: None,
    })
}

fn list(as_json: bool) -> Result<(), Failure> {
    if as_json {
        let checks = by_hand().map(|check| {
            serde_json::json!({"check": check.id, "step": check.step.text(), "expected": check.expected, "why": check.why})
        });
        return output::value(&checks.collect());
    }
    let rows: Vec<Vec<String>> = by_hand()
        .map(|check| vec![check.id.to_owned(), check.expected.to_owned(), check.why.to_owned()])
        .collect();
    output::line(&output::table(&["check", "expected", "why it matters"], &[], &rows))
}

fn print(arguments: &Doctor, report: &Report) -> Result<(), Failure> {
    if arguments.json {
        return output::line(&report.to_json().to_string());
    }
    if arguments.markdown {
        return output::line(&markdown(report));
    }
    let heads = ["check", "", "expected", "seen", "why it matters"];
    let rows: Vec<Vec<String>> = report.rows.iter().map(cells).collect();
    let text = output::table(&heads, &[], &rows);
    // Whole lines are coloured, because colour codes within a line would break the alignment of
    // columns.
    let colour = io::stdout().is_terminal() && variable_of("NO_COLOR").is_none();
    for (at, line) in text.lines().enumerate() {
        let outcome = at.checked_sub(1).and_then(|at| report.rows.get(at)).map(|row| row.outcome);
        match outcome.filter(|_| colour).and_then(shade) {
            Some(shade) => output::line(&format!("\x1b[{shade}m{line}\x1b[0m"))?,
            None => output::line(line)?,
        }
    }
    output::line(&counts(report))
}

fn shade(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Ok => None,
        Outcome::Warning => Some("33"),
        Outcome::Failed => Some("31"),
        Outcome::Skipped => Some("2"),
    }
}

fn cells(row: &Row) -> Vec<String> {
    let cell = |text: &str| output::cell(text, output::CELL_CHARS_MAX);
    let seen = match row.outcome {
        Outcome::Ok => cell(&row.seen),
        // The text of a failed check is printed in full.
        _ => output::cell(&row.seen, usize::MAX),
    };
    vec![
        row.check.id.into(),
        row.outcome.text().into(),
        cell(row.check.expected),
        seen,
        cell(row.check.why),
    ]
}

fn counts(report: &Report) -> String {
    let count = |outcome| report.count(outcome);
    format!(
        "{} ok, {} FAILED, {} warnings, {} skipped",
        count(Outcome::Ok),
        count(Outcome::Failed),
        count(Outcome::Warning),
        count(Outcome::Skipped)
    )
}

/// Returns the doctor's report as a GitHub-flavoured Markdown table.
fn markdown(report: &Report) -> String {
    let cell = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
    let mut lines = vec![
        format!("`vctx doctor` {}: {}", env!("CARGO_PKG_VERSION"), counts(report)),
        String::new(),
        "| Check | | Expected | Seen | Why it matters |".into(),
        "|---|---|---|---|---|".into(),
    ];
    lines.extend(report.rows.iter().map(|row| {
        format!(
            "| `{}` | {} | {} | {} | {} |",
            row.check.id,
            row.outcome.text(),
            cell(row.check.expected),
            cell(&row.seen),
            cell(row.check.why)
        )
    }));
    lines.join("\n")
}

fn ended(report: &Report) -> Result<(), Failure> {
    let failed = report.count(Outcome::Failed);
    match &report.ended {
        End::Unreachable(why) => Err(Failure::new(
            Exit::Unavailable,
            "DATABASE_UNREACHABLE",
            format!("the database does not answer: {why}"),
        )
        .next("start the database, or name its socket with ARANGO_RW_UDS or --endpoint SOCKET")),
        End::Refused(why) => Err(Failure::new(
            Exit::Permission,
            "CREDENTIALS_REFUSED",
            format!("the database refused the credentials: {why}"),
        )
        .next("check ARANGO_USER and ARANGO_PASSWORD (or ARANGO_PASSWORD_FILE)")),
        End::Interrupted => Err(Failure::new(
            Exit::TryAgain,
            "INTERRUPTED",
            "the doctor ended before it had made all checks",
        )
        .next("run it again")),
        End::Done if failed > 0 => {
            Err(Failure::new(Exit::Data, "CHECKS_FAILED", format!("{failed} checks failed")).next(
                "read the rows marked FAILED; docs/reference/doctor.md says what to do about each",
            ))
        }
        End::Done => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome, ended: End) -> Report {
        let row =
            Row { check: by_hand().next().expect("a check"), outcome, seen: "a | b < c".into() };
        Report { rows: vec![row], ended }
    }

    #[test]
    fn each_end_has_its_exit_code() {
        let exit = |report: &Report| ended(report).err().map(|failure| failure.exit as u8);
        for (outcome, end, code) in [
            (Outcome::Ok, End::Done, None),
            (Outcome::Warning, End::Done, None),
            (Outcome::Skipped, End::Done, None),
            (Outcome::Failed, End::Done, Some(65)),
            (Outcome::Failed, End::Unreachable(String::new()), Some(69)),
            (Outcome::Ok, End::Interrupted, Some(75)),
            (Outcome::Failed, End::Refused(String::new()), Some(77)),
        ] {
            assert_eq!(exit(&report(outcome, end.clone())), code, "{outcome:?} {end:?}");
        }
    }

    #[test]
    fn a_cell_does_not_break_the_table_that_is_pasted() {
        let text = markdown(&report(Outcome::Failed, End::Done));
        assert!(text.contains("| FAILED |") && text.contains("a \\| b &lt; c"), "{text}");
        assert!(text.contains("1 FAILED"));
    }
}
