//! Reads the configuration from defaults, a file and the environment, and reports all errors of the
//! configuration together.

use std::path::{Path, PathBuf};

use figment::error::Kind;
use figment::providers::{Env, Format as _, Serialized, Toml};
use figment::{Figment, Source};
use serde::{Deserialize, Serialize};

use super::core_settings::CoreSettings;
pub use super::place::PlaceSettings;
use crate::secrets::{password_of, variable_of};
use vctx_base::telemetry;
use vctx_core::dialect::{ALL_TOOLS, Dialect};
use vctx_core::memory::engineer::ContextSettings;
use vctx_core::memory::heartbeat::HeartbeatLimits;
use vctx_core::openai::DropinSettings;
use vctx_core::policy::{Retention, SummarySettings, check_limits};
use vctx_core::search::RecallSettings;
use vctx_core::text::nearest;
use vctx_core::trust::{TaintSettings, check_name};
use vctx_server::executor::{ArchiveSettings, ConveyanceSettings};
use vctx_server::models::chat::ChatSettings;
use vctx_server::models::{
    CHAT, EMBEDDER, EMBEDDER_NEXT, EmbedderSettings, ModelServer, RoleModels, RoleSettings,
    SUMMARISER, TaskModelSettings, role_section,
};
use vctx_server::store::{Admin, Credentials, Endpoint, Fault, RecallSharding};

/// Maximum length of a tenant name in bytes. A document key consists of tenant name, colon and
/// agent name, and may have at most 254 bytes.
const TENANT_BYTES_MAX: usize = 64;
/// Maximum number of databases in addition to the home database.
const PLACES_MAX: usize = 64;
/// Maximum length of a database name in `[[store.places]]`, in bytes.
const PLACE_NAME_BYTES_MAX: usize = 64;

/// Default values of all settings; this file is also the example configuration.
pub const DEFAULTS: &str = include_str!("../../deploy/config.example.toml");

/// All settings of the configuration, except passwords.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Settings of the server's sockets and data directory.
    pub server: ServerSettings,
    /// Limits of cores.
    pub core: CoreSettings,
    /// Connection to the database.
    pub store: StoreSettings,
    /// Limits of heartbeats for new agents.
    pub heartbeat: HeartbeatLimits,
    /// Default options of a search of recall storage.
    pub recall: RecallSettings,
    /// Thresholds that decide when a search of the archive uses a vector index.
    pub archive: ArchiveSettings,
    /// Settings of the log.
    pub log: telemetry::Settings,
    /// Ages at which texts outside the context window are removed.
    pub retention: Retention,
    /// Settings for tainted text.
    pub taint: TaintSettings,
    /// Settings of summaries.
    pub summary: SummarySettings,
    /// Settings of built contexts.
    pub context: ContextSettings,
    /// Settings of the Conveyance score: pause between two probes, and end of a session.
    pub conveyance: ConveyanceSettings,
    /// Settings of the embedder.
    pub embedder: EmbedderSettings,
    /// Settings of the chat model that runs agents.
    pub chat: ChatSettings,
    /// Settings of the OpenAI API.
    pub dropin: DropinSettings,
    /// Limits and timeouts of `vctx proxy`.
    pub proxy: vctx_proxy::Settings,
    /// Settings of the model that writes summaries.
    pub summariser: TaskModelSettings,
    /// Settings of the models that take over steps of context builds.
    #[serde(default)]
    pub models: RoleSettings,
}

/// Sockets and data directory of the server. An empty path means the default path.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Path of the API socket.
    pub socket: PathBuf,
    /// Path of the metrics socket.
    pub metrics_socket: PathBuf,
    /// Tenant of the callers of the API socket.
    pub tenant: String,
    /// Data directory of the embedded engine.
    pub data_dir: PathBuf,
    /// Maximum number of agents of a tenant in one database; 0 means unlimited.
    pub agents_max: u64,
    /// Socket of the witness that cosigns the checkpoints; empty without a witness.
    pub witness: PathBuf,
    /// File of the secret that all servers of the database have; empty for a file in the data
    /// directory.
    pub ledger_secret: PathBuf,
    /// Whether the server runs in production, where it needs a configured database.
    pub production: bool,
}

/// Connection to the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    /// Database socket for reads. If empty, reads use the socket for writes.
    pub ro_uds: String,
    /// Database socket for writes. If empty, the server uses the embedded engine.
    pub rw_uds: String,
    /// Database user for writes.
    pub user: String,
    /// Database user for reads; if empty, the user for writes.
    pub ro_user: String,
    /// Database user that creates and drops indexes; without its password, `user` does this.
    pub index_user: String,
    /// Name of the database in ArangoDB.
    pub database: String,
    /// Whether a write waits until the data is on disk.
    pub durable: bool,
    /// Kind of database request that a write without an eviction uses.
    pub write_mode: WriteChoice,
    /// Number of shards of `recall_log` in a cluster. With 1, all data of the database is stored on
    /// one DB-Server (OneShard).
    pub recall_shards: u32,
    /// Attributes of a recall entry that determine its shard.
    pub recall_shard_keys: Vec<String>,
    /// Number of copies of each shard; 0 means the cluster's default.
    pub recall_replication_factor: u32,
    /// Name of the home database.
    pub place: String,
    /// Whether the home database accepts new agents.
    pub takes_new: bool,
    /// Databases that store agents, in addition to the home database.
    #[serde(default)]
    pub places: Vec<PlaceSettings>,
}

impl StoreSettings {
    /// Returns the settings for sharding `recall_log` in a cluster.
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
            faults.push(format!("store.places: two databases are named {}", pair[0]));
        }
        if !self.takes_new && self.places.iter().all(|place| !place.takes_new) {
            faults.push("store.takes_new: no database accepts new agents".into());
        }
        faults
    }

    fn sharding_fault(&self) -> Option<String> {
        self.recall_sharding().fault().map(|fault| format!("store.recall_{fault}"))
    }
}

/// Kind of database request that a write without an eviction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteChoice {
    /// The vctx server selects the kind, depending on whether ArangoDB runs as a single server or
    /// as a cluster.
    Auto,
    /// One AQL request for each write.
    SingleRequest,
    /// A stream transaction for each write.
    Stream,
}

/// The connection to a configured database, which is not the embedded engine.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Socket for reads.
    pub ro: Endpoint,
    /// Socket for writes.
    pub rw: Endpoint,
    /// Credentials for reads.
    pub ro_credentials: Credentials,
    /// Credentials for writes.
    pub rw_credentials: Credentials,
    /// Credentials of the index user; `None` if the user for writes creates and drops indexes.
    pub index_credentials: Option<Credentials>,
}

impl Remote {
    /// Connects as the user for writes. If an index user is configured, that user creates indexes.
    pub async fn administered(&self, database: &str) -> Result<Admin, Fault> {
        let admin = Admin::connect(&self.rw, &self.rw_credentials, database).await?;
        match &self.index_credentials {
            Some(who) => admin.defining_as(&self.rw, who, database).await,
            None => Ok(admin),
        }
    }
}

/// All errors of a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

/// Returns one line about a fault in the sources of a configuration: the file or variables, the
/// setting, what is wrong, and which setting was probably meant.
fn fault_told(fault: &figment::Error) -> String {
    let place = fault.metadata.as_ref().map(|metadata| match &metadata.source {
        Some(Source::File(path)) => path.display().to_string(),
        _ => metadata.name.to_string(),
    });
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    let mut path = fault.path.clone();
    match &fault.kind {
        Kind::UnknownField(name, known) => {
            if path.last() != Some(name) {
                path.push(name.clone());
            }
            let meant = nearest(name, known.iter().copied());
            let meant = meant.map(|name| format!("; did you mean {name}?"));
            let meant = meant.unwrap_or_else(|| ":".into());
            let setting = path.join(".");
            format!(
                "{place}{setting} is no setting{meant} the settings here are {}",
                known.join(", ")
            )
        }
        kind if path.is_empty() => format!("{place}{kind}"),
        kind => format!("{place}{}: {kind}", path.join(".")),
    }
}

/// Environment variables in which other tools expect an HTTP base URL. vctx does not use such a
/// URL, because it connects only to Unix sockets.
const HTTP_BASE_URLS: [&str; 4] =
    ["ARANGO_URL", "ARANGO_HTTP_BASE_URL", "ARANGODB_URL", "ARANGO_ENDPOINT"];

/// Variables that set a setting of the database connection, with the setting.
const ARANGO_VARIABLES: [(&str, &str); 6] = [
    ("ARANGO_RO_UDS", "store.ro_uds"),
    ("ARANGO_RW_UDS", "store.rw_uds"),
    ("ARANGO_USER", "store.user"),
    ("ARANGO_RO_USER", "store.ro_user"),
    ("ARANGO_INDEX_USER", "store.index_user"),
    ("ARANGO_DB", "store.database"),
];

/// The sources of a configuration.
pub(crate) struct Sources(Figment);

impl Sources {
    /// Returns the source of a setting (`default`, `file` or `environment`), and the file or the
    /// variable.
    pub(crate) fn source_of(&self, name: &str) -> (&'static str, Option<String>) {
        let Some(found) = self.0.find_metadata(name) else { return ("default", None) };
        match &found.source {
            Some(Source::File(path)) => ("file", Some(path.display().to_string())),
            // The variables of the database are single values in the code of `Config::sources`.
            Some(Source::Code(_)) => {
                let variable = ARANGO_VARIABLES.iter().find(|(_, setting)| *setting == name);
                ("environment", variable.map(|(variable, _)| (*variable).to_owned()))
            }
            _ if found.name.contains("environment") => {
                let variable = format!("VCTX_{}", name.to_uppercase().replace('.', "__"));
                ("environment", Some(variable))
            }
            _ => ("default", None),
        }
    }
}

/// Error text for a server in production that has no configured database.
const NO_ENDPOINT: &str = "server.production is true, but no database is named: set ARANGO_RW_UDS (and ARANGO_RO_UDS for reads) to Unix sockets \
    of ArangoDB, or set server.production = false for the embedded database. An HTTP base URL such as ARANGO_URL does not count";

impl Config {
    /// Reads the configuration from defaults, file and environment.
    pub fn load(file: Option<&Path>) -> Result<Self, Faults> {
        Self::from_sources(&Self::sources(file))
    }

    /// Returns the sources of the configuration, which know where each setting comes from.
    pub(crate) fn sources(file: Option<&Path>) -> Sources {
        let mut figment = Figment::from(Toml::string(DEFAULTS));
        if let Some(file) = file {
            figment = figment.merge(Toml::file_exact(file));
        }
        figment = figment
            .merge(Env::prefixed("VCTX_").filter(|key| key.as_str().contains("__")).split("__"));
        for (variable, key) in ARANGO_VARIABLES {
            if let Some(value) = variable_of(variable) {
                figment = figment.merge(Serialized::default(key, value));
            }
        }
        Sources(figment)
    }

    /// Reads and checks the configuration.
    pub(crate) fn from_sources(sources: &Sources) -> Result<Self, Faults> {
        let config: Self = sources
            .0
            .extract()
            .map_err(|e| Faults(e.into_iter().map(|fault| fault_told(&fault)).collect()))?;
        config.check()?;
        Ok(config)
    }

    /// Makes the clients of the models that take over steps of context builds.
    pub fn roles(&self) -> Result<RoleModels, Faults> {
        let key_of = |name: &str| password_of(name).map_err(|faults| faults.to_string());
        RoleModels::open(&self.models, &key_of).map_err(|fault| Faults(vec![fault]))
    }

    /// Returns the model servers that the configuration names, and what each receives.
    pub fn model_servers(&self) -> Vec<ModelServer> {
        let next = self.embedder.next.as_deref();
        let next_model = next.map_or(&self.embedder.model, |next| &next.model);
        let all = [
            (CHAT, self.chat.address(), &self.chat.model),
            (SUMMARISER, self.summariser.address(), &self.summariser.model),
            (EMBEDDER, self.embedder.address(), &self.embedder.model),
            (EMBEDDER_NEXT, next.and_then(EmbedderSettings::address), next_model),
        ];
        let roles = self.models.iter();
        let roles = roles.map(|(role, model)| (role_section(*role), model.address(), &model.model));
        let told = all.into_iter().chain(roles).filter_map(|(section, address, model)| {
            Some(ModelServer::of(section, &address?, model))
        });
        told.collect()
    }

    /// Returns warnings for the log about settings that are allowed but suspicious.
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
        let witness = &self.server.witness;
        if !witness.as_os_str().is_empty()
            && let Err(fault) = Endpoint::parse(&witness.display().to_string())
        {
            faults.push(format!("server.witness: {fault}"));
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
        faults.extend(self.summary.fault());
        faults.extend(self.context.fault());
        faults.extend(self.store.sharding_fault());
        faults.extend(self.store.place_faults());
        faults.extend(self.conveyance.faults());
        faults.extend(self.embedder.faults());
        faults.extend(self.chat.faults());
        faults.extend(self.summariser.faults("summariser"));
        for (role, model) in &self.models {
            faults.extend(model.faults(role_section(*role)));
        }
        match Dialect::by_name(&self.chat.dialect) {
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
        faults.extend(self.core.fault());
        faults.extend(self.proxy.faults());
        if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
    }

    /// Returns the connection to the configured database, with its passwords; `None` for the
    /// embedded engine.
    pub fn remote(&self) -> Result<Option<Remote>, Faults> {
        self.remote_of("", &password_of)
    }

    /// Returns the connection of a server to its database. Returns an error if the server runs in
    /// production without a configured database. Without this check, a server that lacks its
    /// environment variables would start with an empty embedded database.
    pub fn served(&self) -> Result<Option<Remote>, Faults> {
        match self.remote()? {
            None if self.server.production => Err(Faults(vec![NO_ENDPOINT.into()])),
            remote => Ok(remote),
        }
    }

    /// Returns the configuration and the connection for a database other than the home database.
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

    /// Returns the connection to a database. The names of its password variables end with `suffix`;
    /// a missing variable is replaced by the variable of the home database. If no user for reads is
    /// configured, the user for writes also reads.
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

/// A function that returns the password for the name of an environment variable, or `None` if there
/// is no password. Outside of tests, this function is [`password_of`].
type PasswordOf<'a> = dyn Fn(&str) -> Result<Option<String>, Faults> + 'a;

#[cfg(test)]
mod tests {
    use super::*;

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
        // A database other than the home database does not use the home database's user for reads.
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
