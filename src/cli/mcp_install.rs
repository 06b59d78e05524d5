//! `vctx mcp install`: adds the memory to the configuration of an MCP client.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::secrets::variable_of;
use crate::whose::from_environment;
use vctx_client::paths;

const EXAMPLES: &str = "\
Examples:
  vctx mcp install --client cursor                     shows the change, and asks before it is written
  vctx mcp install --client claude-code --agent ada    in the .mcp.json of this directory
  vctx mcp install --client vscode --dry-run           only shows it

Other servers in the file stay as they are. Restart the client afterwards.";

/// Maximum size of a client's configuration, in bytes.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;

/// Add this memory to the configuration of an MCP client
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Install {
    /// The client
    #[arg(long)]
    client: ClientName,

    /// Agent whose memory the client uses [default: $VCTX_AGENT, else the agent `default`]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Name of the server in the client's configuration
    #[arg(long, value_name = "NAME", default_value = "memory")]
    name: String,

    /// Configuration file of the client [default: where the client looks]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Only show the change
    #[arg(long)]
    dry_run: bool,

    /// Write the change without a question
    #[arg(long)]
    yes: bool,

    /// Answer in JSON, including errors
    #[arg(long)]
    pub json: bool,
}

/// A client whose configuration is known, from its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClientName {
    /// Claude Code: `.mcp.json` of the current directory
    ClaudeCode,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor, for all projects
    Cursor,
    /// Gemini CLI, for all projects
    GeminiCli,
    /// VS Code: `.vscode/mcp.json` of the current directory
    Vscode,
    /// Windsurf
    Windsurf,
}

impl ClientName {
    /// Returns the configuration file of the client, below the home directory or the current one.
    fn file(self, home: &Path) -> PathBuf {
        match self {
            Self::ClaudeCode => ".mcp.json".into(),
            Self::ClaudeDesktop if cfg!(target_os = "macos") => {
                home.join("Library/Application Support/Claude/claude_desktop_config.json")
            }
            Self::ClaudeDesktop => home.join(".config/Claude/claude_desktop_config.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::GeminiCli => home.join(".gemini/settings.json"),
            Self::Vscode => ".vscode/mcp.json".into(),
            Self::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
        }
    }

    /// Returns the attribute of the file that lists the servers.
    fn list(self) -> &'static str {
        if self == Self::Vscode { "servers" } else { "mcpServers" }
    }
}

/// Runs `vctx mcp install`.
pub fn run(asked: &Install) -> Result<(), Failure> {
    let path = file_of(asked)?;
    let program = paths::own_program();
    let program = program.map_err(|error| Failure::reading("the path of this program", &error))?;
    let agent = asked.agent.clone().or_else(from_environment);
    let server = server(&program, agent.as_deref());
    let mut whole = configuration(&path)?;
    let servers = whole.entry(asked.client.list()).or_insert_with(|| json!({}));
    let Some(servers) = servers.as_object_mut() else {
        let text = format!("{}: `{}` is no list of servers", path.display(), asked.client.list());
        return Err(Failure::data(text));
    };
    let changed = servers.get(&asked.name) != Some(&server);
    servers.insert(asked.name.clone(), server.clone());
    let told = json!({"file": path, "server": asked.name, "configuration": server,
        "changed": changed, "written": changed && !asked.dry_run});
    if !asked.json {
        let state = if changed { "gets" } else { "has already" };
        let entry = output::pretty(&json!({asked.name.as_str(): server}));
        output::line(&format!("{} {state}\n{entry}", path.display()))?;
    }
    if changed && !asked.dry_run {
        confirm(asked)?;
        write(&path, &Value::Object(whole)).map_err(|e| Failure::writing(path.display(), &e))?;
    }
    match asked.json {
        true => output::value(&told),
        false if told["written"] == true => output::line("written; restart the client"),
        false => Ok(()),
    }
}

fn file_of(asked: &Install) -> Result<PathBuf, Failure> {
    if let Some(file) = &asked.file {
        return Ok(file.clone());
    }
    let home = variable_of("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| {
        let text = "HOME is not set: name the configuration file with --file";
        Failure::new(Exit::Configuration, "CONFIGURATION", text)
    })?;
    Ok(asked.client.file(&home))
}

/// Returns the entry of a server that a client starts. Clients hand on few variables, so the
/// program has its full path and the agent is an argument.
fn server(program: &Path, agent: Option<&str>) -> Value {
    let mut arguments = vec!["mcp"];
    arguments.extend(agent.into_iter().flat_map(|agent| ["--agent", agent]));
    json!({"command": program, "args": arguments})
}

fn configuration(path: &Path) -> Result<Map<String, Value>, Failure> {
    let length = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        found => found.map_err(|error| Failure::reading(path.display(), &error))?.len(),
    };
    if length > CONFIGURATION_BYTES_MAX {
        return Err(Failure::data(format!("{}: too long for a configuration", path.display())));
    }
    let text = fs::read_to_string(path).map_err(|e| Failure::reading(path.display(), &e))?;
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(&text).map_err(|error| {
        let text = format!("{}: no JSON object: {error}; nothing was changed", path.display());
        Failure::data(text).next("add the entry by hand: --dry-run --file /dev/null shows it")
    })
}

fn confirm(asked: &Install) -> Result<(), Failure> {
    if asked.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let failure = Failure::usage("cannot ask for confirmation without a terminal");
        return Err(failure.next("check with --dry-run, then add --yes"));
    }
    let unasked = |error| Failure::internal(format!("cannot ask: {error}"));
    let mut out = io::stderr().lock();
    write!(out, "Write it? [y/N] ").and_then(|()| out.flush()).map_err(unasked)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(unasked)?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::usage("nothing was changed")),
    }
}

/// Replaces the file as a whole, with the permissions that it has. If the path is a symbolic link,
/// the file that the link names is replaced.
fn write(path: &Path, whole: &Value) -> io::Result<()> {
    let named = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
    let path = named.as_path();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = NamedTempFile::new_in(directory)?;
    writeln!(file, "{}", output::pretty(whole))?;
    if let Ok(old) = fs::metadata(path) {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|fault| fault.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(file: &Path) -> Install {
        Install {
            client: ClientName::Cursor,
            agent: Some("ada".into()),
            name: "memory".into(),
            file: Some(file.into()),
            dry_run: false,
            yes: true,
            json: true,
        }
    }

    #[test]
    fn other_servers_and_settings_stay() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("deep/mcp.json");
        run(&asked(&file)).unwrap();
        let made: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(made["mcpServers"]["memory"]["args"], json!(["mcp", "--agent", "ada"]));
        let other = r#"{"theme": "dark", "mcpServers": {"other": {"command": "x"}}}"#;
        fs::write(&file, other).unwrap();
        run(&Install { dry_run: true, ..asked(&file) }).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), other);
        run(&asked(&file)).unwrap();
        let made: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(
            (&made["theme"], &made["mcpServers"]["other"]["command"]),
            (&json!("dark"), &json!("x"))
        );
        assert!(made["mcpServers"]["memory"]["command"].as_str().unwrap().starts_with('/'));
    }

    #[test]
    fn what_is_no_json_is_refused_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mcp.json");
        for text in ["// a comment\n{}", "[]", r#"{"mcpServers": []}"#] {
            fs::write(&file, text).unwrap();
            assert_eq!(run(&asked(&file)).unwrap_err().exit, Exit::Data, "{text}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }
}
