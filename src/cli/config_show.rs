//! `vctx config show`: prints every setting with its value and its source, and never a secret.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::args;
use crate::config::{Config, Sources};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::secrets::{Origin, origin_of};
use vctx_client::paths;
use vctx_server::models::chat::CHAT_KEY;
use vctx_server::models::{EMBEDDER_KEY, EMBEDDER_NEXT_KEY, SUMMARISER_KEY, role_key};

const EXAMPLES: &str = "\
The sources of a setting, from the weakest to the strongest: default, file, environment, flag. A secret is a password or a key; its source
is a variable, a file that a variable names, or a credential of the service manager. Secrets are never printed or read.

Examples:
  vctx config show
  vctx config show --config /etc/vctx/config.toml --json
  vctx config show --socket ./vctx.sock --data-dir ./memory     with the flags of `vctx serve`

Exit codes: 0 done, 78 wrong configuration.";

/// Secrets of the configuration. The passwords of a further database have the database's name as
/// their suffix.
const PASSWORDS: [&str; 3] = ["ARANGO_PASSWORD", "ARANGO_RO_PASSWORD", "ARANGO_INDEX_PASSWORD"];
const KEYS: [&str; 4] = [CHAT_KEY, EMBEDDER_KEY, EMBEDDER_NEXT_KEY, SUMMARISER_KEY];

/// Print the configuration
#[derive(Debug, Args)]
pub struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
}

/// Print every setting with its value and its source
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Show {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Socket to listen on, as for `vctx serve`
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Directory of the data, as for `vctx serve`
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ConfigCommand {
    /// Returns whether the command prints JSON.
    pub fn json(&self) -> bool {
        let Action::Show(show) = &self.action;
        show.json
    }
}

/// A setting with its value and where the value comes from.
struct Setting {
    name: String,
    value: Value,
    /// `default`, `file`, `environment` or `flag`.
    source: &'static str,
    /// The file, variable or flag.
    from: Option<String>,
}

/// Runs `vctx config`.
pub async fn run(asked: ConfigCommand) -> Result<(), Failure> {
    let Action::Show(show) = asked.action;
    let wrong = |faults| Failure::new(Exit::Configuration, "CONFIGURATION", format!("{faults}"));
    let sources = Config::sources(show.config.as_deref());
    let config = Config::from_sources(&sources).map_err(wrong)?;
    let settings = settings(&sources, &config, &show);
    let secrets = secrets(&config);
    if !show.json {
        return output::line(&tables(&settings, &secrets));
    }
    let settings: Vec<Value> = settings
        .into_iter()
        .map(|s| json!({"name": s.name, "value": s.value, "source": s.source, "from": s.from}))
        .collect();
    let secrets: Vec<Value> = secrets
        .into_iter()
        .map(|(name, found)| {
            let (source, from) = told(&name, found.as_ref());
            json!({"name": name, "set": found.is_some(), "source": source, "from": from})
        })
        .collect();
    output::value(&json!({"settings": settings, "secrets": secrets}))
}

fn settings(sources: &Sources, config: &Config, show: &Show) -> Vec<Setting> {
    let mut all = Vec::new();
    flatten(sources, String::new(), json!(config), &mut all);
    let path = |path: PathBuf| Value::from(path.display().to_string());
    let mut decide = |name: &str, flag: Option<&PathBuf>, default: &dyn Fn(&str) -> PathBuf| {
        let Some(setting) = all.iter_mut().find(|setting| setting.name == name) else {
            return String::new();
        };
        if let Some(flag) = flag {
            setting.value = path(args::absolute(flag.clone()));
            setting.source = "flag";
            setting.from =
                name.rsplit('.').next().map(|last| format!("--{}", last.replace('_', "-")));
        } else if setting.value == "" {
            setting.value = path(default(name));
        }
        setting.value.as_str().unwrap_or_default().to_owned()
    };
    let socket = decide("server.socket", show.socket.as_ref(), &|_| paths::default_socket());
    let metrics = |_: &str| paths::metrics_socket(Path::new(&socket));
    decide("server.metrics_socket", None, &metrics);
    decide("server.data_dir", show.data_dir.as_ref(), &|_| paths::default_data_dir());
    all
}

/// Adds the settings below a name. A list is one setting.
fn flatten(sources: &Sources, name: String, value: Value, all: &mut Vec<Setting>) {
    let Value::Object(map) = value else {
        let (source, from) = sources.source_of(&name);
        all.push(Setting { name, value, source, from });
        return;
    };
    for (below, value) in map {
        let dot = if name.is_empty() { "" } else { "." };
        flatten(sources, format!("{name}{dot}{below}"), value, all);
    }
}

/// Returns the secrets of the configuration, each with its origin.
fn secrets(config: &Config) -> Vec<(String, Option<Origin>)> {
    let places = config.store.places.iter();
    let of_places = places
        .flat_map(|place| PASSWORDS.map(|password| format!("{password}_{}", place.variable())));
    let names = PASSWORDS.map(str::to_owned).into_iter().chain(of_places);
    let of_roles = config.models.keys().map(|role| role_key(*role).to_owned());
    let names = names.chain(KEYS.map(str::to_owned)).chain(of_roles);
    names.map(|name| (name.clone(), origin_of(&name))).collect()
}

fn told(name: &str, found: Option<&Origin>) -> (&'static str, Option<String>) {
    match found {
        None => ("none", None),
        Some(Origin::Environment) => ("environment", Some(name.to_owned())),
        Some(Origin::File(path)) => ("file", Some(path.display().to_string())),
        Some(Origin::Credential(path)) => ("credential", Some(path.display().to_string())),
    }
}

fn tables(settings: &[Setting], secrets: &[(String, Option<Origin>)]) -> String {
    let from = |from: Option<String>| from.unwrap_or_default();
    let rows: Vec<Vec<String>> = settings
        .iter()
        .map(|s| vec![s.name.clone(), s.value.to_string(), s.source.into(), from(s.from.clone())])
        .collect();
    let kept: Vec<Vec<String>> = secrets
        .iter()
        .map(|(name, found)| {
            let (source, place) = told(name, found.as_ref());
            let set = if found.is_some() { "set" } else { "not set" };
            vec![name.clone(), set.into(), source.into(), from(place)]
        })
        .collect();
    format!(
        "{}\n\n{}",
        output::table(&["setting", "value", "source", "from"], &[], &rows),
        output::table(&["secret", "state", "source", "from"], &[], &kept)
    )
}
