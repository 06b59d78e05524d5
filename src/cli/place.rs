//! The settings of a database other than the home database.

use serde::{Deserialize, Serialize};

use vctx_server::store::Endpoint;

/// Connection to a database other than the home database.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceSettings {
    /// Name under which the server knows this database. The name must not change, because the
    /// directory of agents refers to it.
    pub name: String,
    /// Socket of this database for reads. If empty, reads use the socket for writes.
    #[serde(default)]
    pub ro_uds: String,
    /// Database socket for writes.
    pub rw_uds: String,
    /// Database user for writes.
    pub user: String,
    /// Database user for reads; if empty, the user for writes.
    #[serde(default)]
    pub ro_user: String,
    /// Name of the database in ArangoDB.
    pub database: String,
    /// Whether this database accepts new agents.
    #[serde(default = "yes")]
    pub takes_new: bool,
}

fn yes() -> bool {
    true
}

impl PlaceSettings {
    pub(super) fn faults(&self) -> Vec<String> {
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

    /// Returns the suffix of the names of this database's password variables, such as `EAST_1` for
    /// the database `east-1`.
    pub(crate) fn variable(&self) -> String {
        self.name.to_uppercase().replace(['-', '.'], "_")
    }
}
