//! `vctx doctor`: everything the server relies on, tried on a database, and the health of a running deployment.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, Remote, password_of, secret_file, variable_of};
use crate::exit::{Exit, Failure};
use crate::output;
use vctx_client::paths;
use vctx_server::doctor::{self, Asked, CHECKS, Ended, LEFTOVER_S, Outcome, Report, Row};
use vctx_server::store::{Credentials, Endpoint, INDEX_USER, Layout, Settings, USER_PASSWORDS};

const EXAMPLES: &str = "\
Who asks decides how much can be tried: an administrator gets a scratch database, somebody who may make collections gets scratch collections, and
for an application user most of it is skipped, with the reason. Scratch is removed at the end, on an error and on a signal; after a kill the next
doctor removes it. The endpoint comes from the environment as for `vctx setup`, or is the embedded engine of a running `vctx serve`.

Examples:
  vctx doctor                                            the engine of the running `vctx serve`
  ARANGO_RW_UDS=/run/arangod/rw.sock ARANGO_USER=root ARANGO_PASSWORD_FILE=./password vctx doctor --markdown > report.md
  vctx doctor --quick --only vectors.ready               one check
  vctx doctor --health --json                            a running deployment; reads only

Exit codes: 0 nothing failed, 65 something did, 69 the database is not there, 75 interrupted, 77 credentials refused, 78 configuration.";

/// Try everything the server relies on, and remove all of it again
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Socket of the database, instead of ARANGO_RW_UDS and ARANGO_RO_UDS
    #[arg(long, value_name = "SOCKET")]
    endpoint: Option<String>,

    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Look at a running deployment instead: schema, indexes, lag, clock, sizes, what waits, rights. Reads only
    #[arg(long)]
    health: bool,

    /// Leave out what waits longer than some seconds
    #[arg(long, conflicts_with = "health")]
    quick: bool,

    /// Make this check alone (may be given more than once)
    #[arg(long, value_name = "ID")]
    only: Vec<String>,

    /// List the checks
    #[arg(long)]
    list: bool,

    /// Answer in JSON: one object with counts and rows
    #[arg(long)]
    pub json: bool,

    /// A table that can be pasted into an issue
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Age in seconds from which on scratch of a doctor that died is removed; 0 also takes that of one that runs
    #[arg(long, value_name = "SECONDS", default_value_t = LEFTOVER_S)]
    sweep_after: u64,
}

/// Runs the command.
pub async fn run(asked: Doctor) -> Result<(), Failure> {
    if asked.list {
        return list(asked.json);
    }
    for id in &asked.only {
        let check = doctor::named(id).ok_or_else(|| {
            Failure::usage(format!("{id} is no check")).next("see `vctx doctor --list`")
        })?;
        if (check.step == doctor::Step::Health) != asked.health {
            let how = if asked.health { "without" } else { "with" };
            return Err(Failure::usage(format!("{id} is made {how} --health")));
        }
    }
    let question = question(&asked)?;
    let report = doctor::examine(&question, signalled()?, &progress).await;
    print(&asked, &report)?;
    ended(&report)
}

/// On stderr, so that stdout holds the report alone.
fn progress(step: &str) {
    eprintln!("doctor: {step} …");
}

/// Ends with the first signal that asks the program to end.
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

fn question(asked: &Doctor) -> Result<Asked, Failure> {
    let config = Config::load(asked.config.as_deref()).map_err(configuration)?;
    let remote = match (&asked.endpoint, config.remote().map_err(configuration)?) {
        (Some(endpoint), given) => {
            let socket = Endpoint::parse(endpoint).map_err(configuration)?;
            let given = match given {
                Some(given) => given,
                None => of_environment(&config)?,
            };
            Remote { ro: socket.clone(), rw: socket, ..given }
        }
        (None, Some(given)) => given,
        (None, None) => embedded(&config)?,
    };
    Ok(Asked {
        store: Settings {
            ro: remote.ro,
            rw: remote.rw,
            ro_credentials: remote.ro_credentials,
            rw_credentials: remote.rw_credentials,
            database: config.store.database.clone(),
            sync: false,
        },
        index_user: config.store.index_user.clone(),
        index_password: remote.index_credentials.map(|index| index.password),
        application: application()?,
        layout: Layout {
            recall: config.store.recall_sharding(),
            recall_ttl_s: config.retention.recall_ttl_s(),
            ttl_may_go: true,
        },
        retention: config.retention,
        index_rows_min: config.archive.index_rows_min,
        health: asked.health,
        quick: asked.quick,
        only: asked.only.clone(),
        leftover_s: asked.sweep_after,
    })
}

/// The users of `vctx setup --users` whose passwords are given as that command takes them.
fn application() -> Result<Vec<Credentials>, Failure> {
    let mut known = Vec::new();
    for (user, name) in USER_PASSWORDS.into_iter().filter(|(user, _)| *user != INDEX_USER) {
        if let Some(password) = password_of(name).map_err(configuration)? {
            known.push(Credentials { user: user.into(), password });
        }
    }
    Ok(known)
}

/// Credentials where the socket alone is given on the command line.
fn of_environment(config: &Config) -> Result<Remote, Failure> {
    let password = password_of("ARANGO_PASSWORD").map_err(configuration)?.unwrap_or_default();
    let ro_password = password_of("ARANGO_RO_PASSWORD").map_err(configuration)?;
    let index_credentials = password_of("ARANGO_INDEX_PASSWORD")
        .map_err(configuration)?
        .map(|password| Credentials { user: config.store.index_user.clone(), password });
    let user = config.store.user.clone();
    let ro_user =
        if config.store.ro_user.is_empty() { user.clone() } else { config.store.ro_user.clone() };
    let nowhere = Endpoint::parse("/").map_err(configuration)?;
    Ok(Remote {
        ro: nowhere.clone(),
        rw: nowhere,
        ro_credentials: Credentials {
            user: ro_user,
            password: ro_password.unwrap_or_else(|| password.clone()),
        },
        rw_credentials: Credentials { user, password },
        index_credentials,
    })
}

/// The engine of a `vctx serve` that runs on this machine, as its administrator.
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
        let checks = CHECKS.iter().map(|check| {
            serde_json::json!({"check": check.id, "step": check.step.text(), "expected": check.expected, "why": check.why})
        });
        return output::value(&checks.collect());
    }
    let rows: Vec<Vec<String>> = CHECKS
        .iter()
        .map(|check| vec![check.id.to_owned(), check.expected.to_owned(), check.why.to_owned()])
        .collect();
    output::line(&output::table(&["check", "expected", "why it matters"], &[], &rows))
}

fn print(asked: &Doctor, report: &Report) -> Result<(), Failure> {
    if asked.json {
        return output::line(&report.to_json().to_string());
    }
    if asked.markdown {
        return output::line(&markdown(report));
    }
    let heads = ["check", "", "expected", "seen", "why it matters"];
    let rows: Vec<Vec<String>> = report.rows.iter().map(cells).collect();
    let text = output::table(&heads, &[], &rows);
    // Colours are put on whole lines, so that columns stay aligned.
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
        // What went wrong is told whole.
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

/// The same as a table of GitHub-flavoured Markdown.
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
        Ended::Unreachable(why) => Err(Failure::new(
            Exit::Unavailable,
            "DATABASE_UNREACHABLE",
            format!("the database does not answer: {why}"),
        )
        .next("start it, or name its socket: ARANGO_RW_UDS, or --endpoint SOCKET")),
        Ended::Refused(why) => Err(Failure::new(
            Exit::Permission,
            "CREDENTIALS_REFUSED",
            format!("the database refused the credentials: {why}"),
        )
        .next("check ARANGO_USER and ARANGO_PASSWORD (or ARANGO_PASSWORD_FILE)")),
        Ended::Interrupted => Err(Failure::new(
            Exit::TryAgain,
            "INTERRUPTED",
            "the visit was ended before everything was looked at",
        )
        .next("run it again")),
        Ended::Done if failed > 0 => {
            Err(Failure::new(Exit::Data, "CHECKS_FAILED", format!("{failed} checks failed")).next(
                "read the rows marked FAILED; docs/reference/doctor.md says what to do about each",
            ))
        }
        Ended::Done => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome, ended: Ended) -> Report {
        let row = Row { check: CHECKS[0], outcome, seen: "a | b < c".into() };
        Report { rows: vec![row], ended }
    }

    #[test]
    fn each_end_has_its_exit_code() {
        let exit = |report: &Report| ended(report).err().map(|failure| failure.exit as u8);
        for (outcome, end, code) in [
            (Outcome::Ok, Ended::Done, None),
            (Outcome::Warning, Ended::Done, None),
            (Outcome::Skipped, Ended::Done, None),
            (Outcome::Failed, Ended::Done, Some(65)),
            (Outcome::Failed, Ended::Unreachable(String::new()), Some(69)),
            (Outcome::Ok, Ended::Interrupted, Some(75)),
            (Outcome::Failed, Ended::Refused(String::new()), Some(77)),
        ] {
            assert_eq!(exit(&report(outcome, end.clone())), code, "{outcome:?} {end:?}");
        }
    }

    #[test]
    fn a_cell_does_not_break_the_table_that_is_pasted() {
        let text = markdown(&report(Outcome::Failed, Ended::Done));
        assert!(text.contains("| FAILED |") && text.contains("a \\| b &lt; c"), "{text}");
        assert!(text.contains("1 FAILED"));
    }
}
