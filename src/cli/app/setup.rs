//! Creates the schema and the users of a database.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::{Stop, exit, io_loop};
use crate::config::Config;
use crate::secrets::password_of;
use vctx_server::store;

/// Applies the schema to the database at the configured endpoint; with `users`, also creates the
/// database users of a server.
pub fn setup(config: Option<&Path>, users: bool, json: bool) -> ExitCode {
    exit(run_setup(config, users, json))
}

fn run_setup(path: Option<&Path>, users: bool, json: bool) -> Result<(), Stop> {
    let config = Config::load(path)?;
    let Some(remote) = config.remote()? else {
        return Err(Stop::Configuration(
            "ARANGO_RW_UDS is not set: name the socket to set up (`vctx serve` sets the embedded database up by itself)".into(),
        ));
    };
    let mut passwords = HashMap::new();
    for (user, name) in store::USER_PASSWORDS.into_iter().filter(|_| users) {
        let password = password_of(name)?.ok_or_else(|| {
            Stop::Configuration(format!(
                "{name} (or {name}_FILE) is not set: it becomes the password of {user}"
            ))
        })?;
        passwords.insert(user.to_owned(), password);
    }
    let password = |user: &str| passwords.get(user).cloned().unwrap_or_default();
    let users: Option<&(dyn Fn(&str) -> String + Sync)> =
        if users { Some(&password) } else { None };
    let reports = io_loop()?.block_on(store::set_up(
        &remote.rw,
        &remote.rw_credentials,
        &config.store.database,
        &store::Layout { ttl_may_go: path.is_some(), ..config.layout() },
        users,
    ))?;
    print_setup(&reports, json);
    Ok(())
}

fn print_setup(reports: &[store::SetupReport], json: bool) {
    let made = reports.iter().filter(|r| r.made).count();
    if json {
        let rows: Vec<Value> =
            reports.iter().map(|r| json!({"what": r.what, "made": r.made})).collect();
        println!("{}", json!({"made": made, "steps": rows}));
        return;
    }
    for report in reports {
        println!("{:<8} {}", if report.made { "made" } else { "there" }, report.what);
    }
    println!("{made} made, {} existed already", reports.len() - made);
}
