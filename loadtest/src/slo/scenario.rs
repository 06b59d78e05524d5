//! A scenario as its file tells it: what is asked, how often, of how much, and the level that is promised.

use std::path::Path;

use figment::Figment;
use figment::providers::{Format as _, Toml};
use serde::Deserialize;

use crate::Fault;

/// The scenarios that come with this program.
const SHIPPED: [(&str, &str); 4] = [
    ("recall", include_str!("../../scenarios/recall.toml")),
    ("recall_agents", include_str!("../../scenarios/recall_agents.toml")),
    ("archival", include_str!("../../scenarios/archival.toml")),
    ("core_write", include_str!("../../scenarios/core_write.toml")),
];

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// `search_recall`, reading only.
    Recall,
    /// `search_archival` by vector.
    Archival,
    /// `store_core` under the revision that was last seen.
    CoreWrite,
}

impl Kind {
    /// The server's own histogram of what is asked.
    pub(crate) fn histogram(self) -> &'static str {
        match self {
            Self::Recall => "vctx_recall_seconds",
            Self::Archival => "vctx_archival_seconds",
            Self::CoreWrite => "vctx_core_write_seconds",
        }
    }
}

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    /// 99 of 100 calls are answered within this.
    pub(crate) slo_p99_ms: f64,
    /// Messages or chunks at full scale.
    pub(crate) rows: u64,
    /// Results asked for.
    pub(crate) limit: u64,
    /// Arrivals a second.
    pub(crate) rate_per_s: f64,
    /// Connections that send; more calls than these at once wait, and their wait is counted.
    pub(crate) senders: usize,
    /// Writes a second beside the load.
    pub(crate) writers_per_s: f64,
    /// Pause between seeding and load, in seconds: a bulk load is no part of what is promised.
    #[serde(default)]
    pub(crate) settle_s: u64,
    /// Components of made vectors.
    #[serde(default)]
    pub(crate) dimension: usize,
    /// Cells searched, one run each; the last is judged.
    #[serde(default)]
    pub(crate) n_probes: Vec<u32>,
    /// Agents whose recall storage is searched side by side, one run each; the rows are spread evenly over the most. None: one agent.
    #[serde(default)]
    pub(crate) agents: Vec<u64>,
}

impl Scenario {
    /// A shipped scenario by name, or the file of that path; `all` are the shipped ones.
    pub(crate) fn named(name: &str) -> Result<Vec<(String, Self)>, Fault> {
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
        return Err("rate_per_s and senders must be above 0, writers_per_s not below".into());
    }
    if scenario.agents.contains(&0) || scenario.kind != Kind::Recall && !scenario.agents.is_empty()
    {
        return Err("agents must be above 0, and only recall has several".into());
    }
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_scenarios_are_the_service_levels() {
        let all = Scenario::named("all").unwrap();
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
        let fault = Scenario::named("nothing").map(|_| ()).unwrap_err().to_string();
        assert!(fault.contains("use all, recall"), "{fault}");
        assert!(parse("kind = \"recall\"").is_err());
        assert_eq!(all[1].1.agents, [1, 8, 64]);
        let many = SHIPPED[1].1;
        assert!(parse(&many.replace("[1, 8, 64]", "[0]")).is_err());
        assert!(parse(&many.replace("\"recall\"", "\"archival\"")).is_err());
    }
}
