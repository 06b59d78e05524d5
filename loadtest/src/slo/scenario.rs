//! A scenario, read from a file: the kind of call, the call rate, the amount of data, and the
//! promised service level.

use std::path::Path;

use figment::Figment;
use figment::providers::{Format as _, Toml};
use serde::Deserialize;

use crate::Fault;

/// The scenarios shipped with this program.
const SHIPPED: [(&str, &str); 4] = [
    ("recall", include_str!("../../scenarios/recall.toml")),
    ("recall_agents", include_str!("../../scenarios/recall_agents.toml")),
    ("archival", include_str!("../../scenarios/archival.toml")),
    ("core_write", include_str!("../../scenarios/core_write.toml")),
];

/// The kinds of requests that a scenario can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Calls `search_recall` without copying results into the window.
    Recall,
    /// Calls `search_archival` with a vector.
    Archival,
    /// Calls `store_core` with the last known revision.
    CoreWrite,
}

impl Kind {
    /// Returns the name of the histogram in which the server records calls of this kind.
    pub(crate) fn histogram(self) -> &'static str {
        match self {
            Self::Recall => "vctx_recall_seconds",
            Self::Archival => "vctx_archival_seconds",
            Self::CoreWrite => "vctx_core_write_seconds",
        }
    }
}

/// The settings of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    /// Promised p99 duration of calls, in milliseconds.
    pub(crate) slo_p99_ms: f64,
    /// Number of stored messages or chunks at full scale.
    pub(crate) rows: u64,
    /// Number of results that each search requests.
    pub(crate) limit: u64,
    /// Number of calls that are due per second.
    pub(crate) rate_per_s: f64,
    /// Number of connections that send calls. If all senders are busy, a due call waits, and the
    /// duration of the call includes the wait.
    pub(crate) senders: usize,
    /// Number of writes per second by other clients during the measurement.
    pub(crate) writers_per_s: f64,
    /// Pause in seconds between storing the data and sending calls, because the promised service
    /// level does not cover a bulk load.
    #[serde(default)]
    pub(crate) settle_s: u64,
    /// Dimension of generated vectors.
    #[serde(default)]
    pub(crate) dimension: usize,
    /// Values of `nProbe`; each value has a separate run. The last run is compared with the
    /// promised service level.
    #[serde(default)]
    pub(crate) n_probes: Vec<u32>,
    /// Numbers of agents to search; each number has a separate run, whose senders search that
    /// number of agents in parallel. The stored rows are spread evenly over the largest number of
    /// agents. An empty list means one agent.
    #[serde(default)]
    pub(crate) agents: Vec<u64>,
}

impl Scenario {
    /// Loads a shipped scenario by name, or a scenario from a file path; the name `all` loads all
    /// shipped scenarios.
    pub(crate) fn by_name(name: &str) -> Result<Vec<(String, Self)>, Fault> {
        if name == "all" {
            return SHIPPED
                .iter()
                .map(|(name, text)| Ok(((*name).to_owned(), parse(text)?)))
                .collect();
        }
        if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Ok(vec![((*name).to_owned(), parse(text)?)]);
        }
        let text = std::fs::read_to_string(Path::new(name)).map_err(|e| {
            let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            format!("{name}: {e}; use all, {} or the path of a file", names.join(", "))
        })?;
        Ok(vec![(name.to_owned(), parse(&text).map_err(|e| format!("{name}: {e}"))?)])
    }
}

fn parse(text: &str) -> Result<Scenario, Fault> {
    let scenario: Scenario = Figment::from(Toml::string(text)).extract().map_err(Box::new)?;
    let sound = scenario.rate_per_s > 0.0 && scenario.senders > 0 && scenario.writers_per_s >= 0.0;
    if !sound {
        return Err("rate_per_s and senders must be above 0, writers_per_s at least 0".into());
    }
    if scenario.agents.contains(&0) || scenario.kind != Kind::Recall && !scenario.agents.is_empty()
    {
        return Err("every number of agents must be above 0, and only a scenario of the kind recall may list numbers of agents".into());
    }
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_scenarios_are_the_service_levels() {
        let all = Scenario::by_name("all").unwrap();
        let levels: Vec<(Kind, f64, u64)> =
            all.iter().map(|(_, s)| (s.kind, s.slo_p99_ms, s.rows)).collect();
        assert_eq!(
            levels,
            [
                (Kind::Recall, 250.0, 1_000_000),
                (Kind::Recall, 250.0, 1_000_000),
                (Kind::Archival, 750.0, 5_000_000),
                (Kind::CoreWrite, 100.0, 0)
            ]
        );
        let fault = Scenario::by_name("nothing").map(|_| ()).unwrap_err().to_string();
        assert!(fault.contains("use all, recall"), "{fault}");
        assert!(parse("kind = \"recall\"").is_err());
        assert_eq!(all[1].1.agents, [1, 8, 64]);
        let many = SHIPPED[1].1;
        assert!(parse(&many.replace("[1, 8, 64]", "[0]")).is_err());
        assert!(parse(&many.replace("\"recall\"", "\"archival\"")).is_err());
    }
}
