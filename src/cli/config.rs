//! Configuration: defaults, then a file, then the environment; every fault is reported, then it fails once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::{Env, Format as _, Serialized, Toml};
use serde::{Deserialize, Serialize};

use vctx_base::telemetry;
use vctx_core::dialect::{ALL_TOOLS, Dialect};
use vctx_core::limits::{PLACE_NAME_BYTES_MAX, PLACES_MAX, TENANT_BYTES_MAX};
use vctx_core::memory::heartbeat::HeartbeatLimits;
use vctx_core::openai::DropinSettings;
use vctx_core::policy::{RecallSettings, Retention, TaintSettings, check_limits, check_name};
use vctx_server::executor::ArchiveSettings;
use vctx_server::models::chat::ChatSettings;
use vctx_server::models::{EmbedderSettings, GatewaySettings};
use vctx_server::pulse;
use vctx_server::store::{Admin, Credentials, Endpoint, Fault, RecallSharding};

/// The visible table of defaults; it is what `deploy/config.example.toml` shows.
pub const DEFAULTS: &str = include_str!("../../deploy/config.example.toml");

/// Everything that can be set, except passwords.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Our own sockets and data.
    pub server: ServerSettings,
    /// The way to the database.
    pub store: StoreSettings,
    /// Caps of heartbeats that a new agent gets.
    pub heartbeat: HeartbeatLimits,
    /// What a search of recall storage does unless it is told otherwise.
    pub recall: RecallSettings,
    /// When the archive is searched through its vector index.
    pub archive: ArchiveSettings,
    /// Logs.
    pub log: telemetry::Settings,
    /// How long what left the window stays.
    pub retention: Retention,
    /// What is done about text from outside that looks like an order to the model.
    pub taint: TaintSettings,
    /// What the server watches of itself.
    pub conveyance: pulse::Settings,
    /// What makes vectors of texts.
    pub embedder: EmbedderSettings,
    /// The model that runs are driven with.
    pub chat: ChatSettings,
    /// What clients of OpenAI get.
    pub dropin: DropinSettings,
    /// How much `vctx proxy` takes at once, and how long it waits.
    pub proxy: vctx_proxy::Settings,
    /// A model for summaries.
    #[serde(default)]
    pub model: Option<GatewaySettings>,
}

/// Our own sockets and data; empty paths mean the defaults.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// API socket.
    pub socket: PathBuf,
    /// Metrics socket.
    pub metrics_socket: PathBuf,
    /// Tenant of the API socket's callers.
    pub tenant: String,
    /// The embedded engine's directory.
    pub data_dir: PathBuf,
    /// Whether the database has to be named, and an HTTP base URL in the environment is only warned about.
    pub production: bool,
}

/// The way to the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    /// Socket for reads; empty: as for writes, or embedded.
    pub ro_uds: String,
    /// Socket for writes; empty: embedded.
    pub rw_uds: String,
    /// User for writes.
    pub user: String,
    /// User for reads; empty: the same.
    pub ro_user: String,
    /// User who makes and drops indexes, if there is a password for one; else the user for writes does.
    pub index_user: String,
    /// Database.
    pub database: String,
    /// Whether a write waits for the disk.
    pub durable: bool,
    /// How writes go.
    pub write_mode: WriteChoice,
    /// Shards of `recall_log` in a cluster; 1: all lies on one DB-Server (OneShard).
    pub recall_shards: u32,
    /// What a shard is chosen by.
    pub recall_shard_keys: Vec<String>,
    /// Copies of each shard; 0: as the cluster has it.
    pub recall_replication_factor: u32,
    /// Name of this place, the home place.
    pub place: String,
    /// Whether new agents go to it.
    pub takes_new: bool,
    /// Further places that agents are in.
    #[serde(default)]
    pub places: Vec<PlaceSettings>,
}

/// The way to a further database.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceSettings {
    /// Its name, once for ever: the directory holds it.
    pub name: String,
    /// Socket for reads; empty: as for writes.
    #[serde(default)]
    pub ro_uds: String,
    /// Socket for writes.
    pub rw_uds: String,
    /// User for writes.
    pub user: String,
    /// User for reads; empty: the same.
    #[serde(default)]
    pub ro_user: String,
    /// Database.
    pub database: String,
    /// Whether new agents go there.
    #[serde(default = "yes")]
    pub takes_new: bool,
}

fn yes() -> bool {
    true
}

impl PlaceSettings {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, text) in [("ro_uds", &self.ro_uds), ("rw_uds", &self.rw_uds)] {
            if let Err(fault) = Endpoint::parse(text)
                && (key == "rw_uds" || !text.is_empty())
            {
                faults.push(format!("store.places: {key} of {}: {fault}", self.name));
            }
        }
        for (key, text) in [("user", &self.user), ("database", &self.database)] {
            if text.is_empty() {
                faults.push(format!("store.places: {key} of {} is empty", self.name));
            }
        }
        faults
    }

    /// The end of the name of a variable that holds its password: `east-1` is `EAST_1`.
    fn variable(&self) -> String {
        self.name.to_uppercase().replace(['-', '.'], "_")
    }
}

impl StoreSettings {
    /// How `recall_log` is laid out in a cluster.
    pub fn recall_sharding(&self) -> RecallSharding {
        RecallSharding {
            shards: self.recall_shards,
            shard_keys: self.recall_shard_keys.clone(),
            replication_factor: self.recall_replication_factor,
        }
    }

    fn place_faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.places.iter().flat_map(PlaceSettings::faults).collect();
        if self.places.len() > PLACES_MAX {
            faults.push(format!("store.places: at most {PLACES_MAX}"));
        }
        let mut names: Vec<&str> = self.places.iter().map(|place| place.name.as_str()).collect();
        names.push(&self.place);
        for name in &names {
            if let Err(fault) = check_name("store.places: name", name) {
                faults.push(fault.message);
            } else if name.len() > PLACE_NAME_BYTES_MAX {
                faults.push(format!("store.places: {name}: at most {PLACE_NAME_BYTES_MAX} bytes"));
            }
        }
        names.sort_unstable();
        for pair in names.windows(2).filter(|pair| pair[0] == pair[1]) {
            faults.push(format!("store.places: two places are named {}", pair[0]));
        }
        if !self.takes_new && self.places.iter().all(|place| !place.takes_new) {
            faults.push("store.takes_new: no place takes new agents".into());
        }
        faults
    }

    fn sharding_fault(&self) -> Option<String> {
        self.recall_sharding().fault().map(|fault| format!("store.recall_{fault}"))
    }
}

/// How writes without an eviction go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteChoice {
    /// By the database's role.
    Auto,
    /// One AQL request.
    SingleRequest,
    /// A stream transaction.
    Stream,
}

/// A database that is configured, as opposed to the embedded one.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Socket for reads.
    pub ro: Endpoint,
    /// Socket for writes.
    pub rw: Endpoint,
    /// Who reads.
    pub ro_credentials: Credentials,
    /// Who writes.
    pub rw_credentials: Credentials,
    /// Who makes and drops indexes, if that is another.
    pub index_credentials: Option<Credentials>,
}

impl Remote {
    /// The way to a database as whoever writes there, who has indexes made by whom may.
    pub async fn administered(&self, database: &str) -> Result<Admin, Fault> {
        let admin = Admin::connect(&self.rw, &self.rw_credentials, database).await?;
        match &self.index_credentials {
            Some(who) => admin.defining_as(&self.rw, who, database).await,
            None => Ok(admin),
        }
    }
}

/// All faults of a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

/// Names of the environment that other tools use for an HTTP base URL; vctx speaks to sockets only.
const HTTP_BASE_URLS: [&str; 4] =
    ["ARANGO_URL", "ARANGO_HTTP_BASE_URL", "ARANGODB_URL", "ARANGO_ENDPOINT"];

/// What is wrong with a server in production that has no database.
const NO_ENDPOINT: &str = "server.production is true, but no database is named: set ARANGO_RW_UDS (and ARANGO_RO_UDS for reads) to Unix sockets \
    of ArangoDB, or set server.production = false for the embedded database. An HTTP base URL such as ARANGO_URL does not count";

impl Config {
    /// Reads defaults, file and environment.
    pub fn load(file: Option<&Path>) -> Result<Self, Faults> {
        let mut figment = Figment::from(Toml::string(DEFAULTS));
        if let Some(file) = file {
            figment = figment.merge(Toml::file_exact(file));
        }
        figment = figment
            .merge(Env::prefixed("VCTX_").filter(|key| key.as_str().contains("__")).split("__"));
        for (variable, key) in [
            ("ARANGO_RO_UDS", "store.ro_uds"),
            ("ARANGO_RW_UDS", "store.rw_uds"),
            ("ARANGO_USER", "store.user"),
            ("ARANGO_RO_USER", "store.ro_user"),
            ("ARANGO_INDEX_USER", "store.index_user"),
            ("ARANGO_DB", "store.database"),
        ] {
            if let Some(value) = variable_of(variable) {
                figment = figment.merge(Serialized::default(key, value));
            }
        }
        let config: Self = figment
            .extract()
            .map_err(|e| Faults(e.into_iter().map(|f| f.to_string()).collect()))?;
        config.check()?;
        Ok(config)
    }

    /// What is odd but allowed, to be logged once logs are on.
    pub fn warnings(&self) -> Vec<String> {
        let ignored = |name: &&str| {
            variable_of(name).is_some_and(|v| !v.is_empty() && Endpoint::parse(&v).is_err())
        };
        let text = |name: &str| {
            format!(
                "{name} is set to an HTTP base URL and ignored: the database is reached over Unix sockets only"
            )
        };
        HTTP_BASE_URLS.iter().copied().filter(ignored).map(text).collect()
    }

    fn check(&self) -> Result<(), Faults> {
        let mut faults = Vec::new();
        for (key, text) in
            [("store.ro_uds", &self.store.ro_uds), ("store.rw_uds", &self.store.rw_uds)]
        {
            if let Err(fault) = Endpoint::parse(text)
                && !text.is_empty()
            {
                faults.push(format!("{key}: {fault}"));
            }
        }
        if self.store.rw_uds.is_empty() && !self.store.ro_uds.is_empty() {
            faults
                .push("store.rw_uds: empty, but store.ro_uds is set: set ARANGO_RW_UDS too".into());
        }
        if !self.server.tenant.is_empty()
            && let Err(fault) = check_name("server.tenant", &self.server.tenant)
        {
            faults.push(fault.message);
        }
        if self.server.tenant.len() > TENANT_BYTES_MAX {
            faults.push(format!("server.tenant: at most {TENANT_BYTES_MAX} bytes"));
        }
        if let Err(fault) = check_limits(&self.heartbeat) {
            faults.push(fault.message);
        }
        for name in HTTP_BASE_URLS {
            if let Some(value) = variable_of(name).filter(|v| !v.is_empty())
                && Endpoint::parse(&value).is_err()
                && !self.server.production
            {
                faults.push(format!(
                    "{name}: not a Unix socket; vctx ignores it. Unset it, or set server.production = true"
                ));
            }
        }
        faults.extend(self.recall.faults());
        faults.extend(self.retention.fault());
        faults.extend(self.store.sharding_fault());
        faults.extend(self.store.place_faults());
        faults.extend(self.conveyance.faults());
        faults.extend(self.embedder.faults());
        faults.extend(self.chat.faults());
        match Dialect::named(&self.chat.dialect) {
            Ok(dialect) => {
                let names = dialect.names();
                let is_odd = |name: &&String| *name != ALL_TOOLS && !names.contains(&name.as_str());
                let odd = self.chat.tools.iter().find(is_odd);
                faults.extend(
                    odd.map(|name| format!("chat.tools: {name} is no tool of {}", dialect.text())),
                );
            }
            Err(fault) => faults.push(format!("chat.{}", fault.message)),
        }
        faults.extend(self.dropin.faults());
        faults.extend(self.proxy.faults());
        if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
    }

    /// The configured database, with its passwords; none when the embedded engine is to be started.
    pub fn remote(&self) -> Result<Option<Remote>, Faults> {
        self.remote_of("", &password_of)
    }

    /// The database of a server. In production a configuration that names none is a fault: a server that lost its environment would
    /// answer from an empty memory otherwise.
    pub fn served(&self) -> Result<Option<Remote>, Faults> {
        match self.remote()? {
            None if self.server.production => Err(Faults(vec![NO_ENDPOINT.into()])),
            remote => Ok(remote),
        }
    }

    /// A further place: the configuration as it holds there, and its database.
    pub fn in_place(&self, place: &PlaceSettings) -> Result<(Self, Remote), Faults> {
        self.in_place_with(place, &password_of)
    }

    fn in_place_with(
        &self,
        place: &PlaceSettings,
        password_of: &PasswordOf<'_>,
    ) -> Result<(Self, Remote), Faults> {
        let mut config = self.clone();
        let store = &mut config.store;
        (store.ro_uds, store.rw_uds) = (place.ro_uds.clone(), place.rw_uds.clone());
        (store.user, store.ro_user) = (place.user.clone(), place.ro_user.clone());
        (store.database, store.places) = (place.database.clone(), Vec::new());
        store.place.clone_from(&place.name);
        let none = || Faults(vec![format!("store.places: rw_uds of {} is empty", place.name)]);
        let remote = config.remote_of(&format!("_{}", place.variable()), password_of)?;
        Ok((config, remote.ok_or_else(none)?))
    }

    /// `suffix` is what the variables of the passwords end with; where there is none of that name, those of the home place hold. A reader
    /// without a name of its own is whoever writes, and has that password.
    fn remote_of(&self, suffix: &str, password_of: &PasswordOf) -> Result<Option<Remote>, Faults> {
        if self.store.rw_uds.is_empty() {
            return Ok(None);
        }
        let endpoint = |text: &str| Endpoint::parse(text).map_err(|e| Faults(vec![e.to_string()]));
        let rw = endpoint(&self.store.rw_uds)?;
        let ro =
            if self.store.ro_uds.is_empty() { rw.clone() } else { endpoint(&self.store.ro_uds)? };
        let own = |name: &str| password_of(&format!("{name}{suffix}"));
        let given = |name: &str| own(name)?.map_or_else(|| password_of(name), |own| Ok(Some(own)));
        let password = given("ARANGO_PASSWORD")?.unwrap_or_default();
        let (ro_user, ro_password) = match self.store.ro_user.as_str() {
            "" => (&self.store.user, own("ARANGO_RO_PASSWORD")?),
            _ => (&self.store.ro_user, given("ARANGO_RO_PASSWORD")?),
        };
        let ro_password = ro_password.unwrap_or_else(|| password.clone());
        let index_credentials = given("ARANGO_INDEX_PASSWORD")?
            .map(|password| Credentials { user: self.store.index_user.clone(), password });
        Ok(Some(Remote {
            ro,
            rw,
            ro_credentials: Credentials { user: ro_user.clone(), password: ro_password },
            rw_credentials: Credentials { user: self.store.user.clone(), password },
            index_credentials,
        }))
    }
}

/// Gives the password that a variable's name stands for, if there is one; [`password_of`] where the program runs.
type PasswordOf<'a> = dyn Fn(&str) -> Result<Option<String>, Faults> + 'a;

/// A variable of the environment.
pub fn variable_of(name: &str) -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "this file reads the environment")]
    std::env::var(name).ok()
}

/// A password from `NAME`, else from the file that `NAME_FILE` names, else from the service manager's directory of credentials
/// (`$CREDENTIALS_DIRECTORY`, systemd.exec(5)), where `ARANGO_RO_PASSWORD` is `arango-ro-password`.
pub fn password_of(name: &str) -> Result<Option<String>, Faults> {
    if let Some(password) = variable_of(name) {
        return Ok(Some(password));
    }
    if let Some(path) = variable_of(&format!("{name}_FILE")) {
        return secret_file(Path::new(&path)).map(Some);
    }
    match variable_of("CREDENTIALS_DIRECTORY") {
        Some(directory) => credential(Path::new(&directory), name),
        None => Ok(None),
    }
}

/// A credential of the service manager; one that it was not told to pass is none.
fn credential(directory: &Path, name: &str) -> Result<Option<String>, Faults> {
    let path = directory.join(name.to_lowercase().replace('_', "-"));
    // The manager lets this user in by an access list, whose mask stands where a group's bits would.
    match path.try_exists() {
        Ok(true) => secret_within(&path, 0o007).map(Some),
        Ok(false) => Ok(None),
        Err(error) => Err(Faults(vec![format!("{}: {error}", path.display())])),
    }
}

/// Reads a secret whose file nobody else may read.
pub fn secret_file(path: &Path) -> Result<String, Faults> {
    secret_within(path, 0o077)
}

/// Reads a secret whose file has none of the `open` bits in its mode.
fn secret_within(path: &Path, open: u32) -> Result<String, Faults> {
    let fault = |text: String| Faults(vec![format!("{}: {text}", path.display())]);
    let mode = fs::metadata(path).map_err(|e| fault(e.to_string()))?.permissions().mode();
    if mode & open != 0 {
        return Err(fault(format!(
            "mode {:o} lets others read a password: chmod 600 it",
            mode & 0o777
        )));
    }
    let text = fs::read_to_string(path).map_err(|e| fault(e.to_string()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Reads a secret, or makes it: random, in a file of mode 0600 that exists with no other mode at any moment and never half
/// written: it gets its name when it is on the disk, and the first of two makers wins.
pub fn secret_or_new(path: &Path, fresh: impl FnOnce() -> String) -> Result<String, Faults> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let fault = |e: std::io::Error| Faults(vec![format!("{}: {e}", path.display())]);
    if !path.exists() {
        let mut unnamed = path.as_os_str().to_owned();
        unnamed.push(format!(".{}", std::process::id()));
        let unnamed = Path::new(&unnamed);
        let make = || {
            absent(fs::remove_file(unnamed))?;
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(unnamed)?;
            file.write_all(fresh().as_bytes())?;
            file.sync_all()?;
            match fs::hard_link(unnamed, path) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
                _ => fs::remove_file(unnamed)?,
            }
            fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        make().map_err(fault)?;
    }
    match secret_file(path)? {
        secret if secret.is_empty() => {
            Err(Faults(vec![format!("{}: empty: remove it", path.display())]))
        }
        secret => Ok(secret),
    }
}

/// A file that is not there is as good as removed.
fn absent(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_an_empty_one_is_refused() {
        let directory = std::env::temp_dir().join(format!("vctx-secret-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("root.password");
        assert_eq!(secret_or_new(&path, || "one".into()).unwrap(), "one");
        assert_eq!(secret_or_new(&path, || "two".into()).unwrap(), "one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::write(&path, "").unwrap();
        assert!(secret_or_new(&path, || "two".into()).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_credential_is_read_by_its_name_and_not_from_a_file_that_all_may_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("arango-ro-password");
        let read = || credential(directory.path(), "ARANGO_RO_PASSWORD");
        assert_eq!(read().unwrap(), None);
        fs::write(&path, "quiet\n").unwrap();
        for (mode, given) in [(0o400, true), (0o440, true), (0o444, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read().ok().flatten().as_deref(), given.then_some("quiet"), "{mode:o}");
        }
        assert_eq!(credential(directory.path(), "ARANGO_PASSWORD").unwrap(), None);
    }

    #[test]
    fn a_place_has_its_own_passwords_else_those_of_home_and_a_reader_without_a_name_is_the_writer()
    {
        let place = |ro_user: &str| -> PlaceSettings {
            serde_json::from_value(serde_json::json!({
                "name": "north-1", "rw_uds": "unix:///run/n.sock", "user": "writer", "ro_user": ro_user, "database": "vctx",
            }))
            .unwrap()
        };
        let home_place: Config = Figment::from(Toml::string(DEFAULTS)).extract().unwrap();
        let home = ["ARANGO_PASSWORD", "ARANGO_RO_PASSWORD", "ARANGO_INDEX_PASSWORD"];
        let suffix = format!("_{}", place("").variable());
        let own = home.map(|name| format!("{name}{suffix}"));
        let read = |ro_user: &str, set: &[&str]| {
            let given = |name: &str| Ok(set.contains(&name).then(|| name.to_owned()));
            let (_, remote) = home_place.in_place_with(&place(ro_user), &given).unwrap();
            let index = remote.index_credentials.map(|index| index.password);
            (remote.rw_credentials.password, remote.ro_credentials.password, index)
        };
        let [rw, ro, index] = home;
        // The reader of another name at home is none of this place's.
        assert_eq!(read("", &home), (rw.into(), rw.into(), Some(index.into())));
        assert_eq!(read("eyes", &home), (rw.into(), ro.into(), Some(index.into())));
        assert_eq!(read("eyes", &[rw]), (rw.into(), rw.into(), None));
        assert_eq!(read("", &[]), (String::new(), String::new(), None));
        let both: Vec<&str> = home.into_iter().chain(own.iter().map(String::as_str)).collect();
        let [own_rw, own_ro, own_index] = own.clone();
        for ro_user in ["", "eyes"] {
            let told = (own_rw.clone(), own_ro.clone(), Some(own_index.clone()));
            assert_eq!(read(ro_user, &both), told, "{ro_user}");
        }
        assert_eq!(read("", &[rw, ro, &own_rw]), (own_rw.clone(), own_rw, None));
    }
}
