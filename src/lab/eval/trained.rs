//! The index that is measured: waited for, told, and trained anew where the server is ours. How many vectors its cells hold no tool tells, so
//! that is asked of the database of our own server.

use std::time::Duration;

use serde_json::Value;

use super::clusters::Vectors;
use super::host::Host;
use super::progress::note;
use vctx_base::clock;
use vctx_cli::exit::Failure;
use vctx_core::memory::archive::VectorSetting;
use vctx_server::store::{
    Admin, Fault, drop_vector_index, index_state, sample_scanned, setting_of,
};

/// Longest wait for the index, and the pause between two looks.
const INDEX_WAIT_MAX: Duration = Duration::from_secs(1_800);
const INDEX_LOOK: Duration = Duration::from_millis(500);
/// Queries for which it is counted how many vectors lie in the cells that they look into.
const COUNTED_MAX: usize = 50;

/// How the index stands, as readiness tells.
pub(super) struct Index {
    told: Value,
    waited: Duration,
}

impl Index {
    /// In a sentence.
    pub(super) fn told(&self) -> String {
        let measured = &self.told["measured"];
        match self.told["state"].as_str() {
            Some("ready") => format!(
                "an index of {} cells, ready and measured {:.1} s after the last ingest (nProbe {}: recall {:.3} over {} questions made of stored vectors, {:.1} % scanned)",
                self.told["nLists"],
                self.waited.as_secs_f64(),
                measured["nProbe"],
                measured["recall"].as_f64().unwrap_or(0.0),
                measured["questions"],
                measured["scanned"].as_f64().unwrap_or(0.0) * 100.0,
            ),
            Some(state) => format!("the index: {state}"),
            None => "nothing is known of an index".into(),
        }
    }
}

/// Waits until nothing is trained any more and the cells are measured. Where there are so few vectors that they are compared one by one there is
/// nothing to wait for.
pub(super) async fn wait(host: &Host, rows: usize) -> Result<Index, Failure> {
    let began = clock::now();
    loop {
        let told = host.client().ready().await?["vector_index"].clone();
        let waited = began.elapsed();
        let is_awaited = told["exact_rows_max"].as_u64().is_some_and(|most| rows as u64 > most);
        let is_settled = told["state"] == "ready"
            && told["next"].is_null()
            && told["measured"]["nLists"] == told["nLists"]
            && told["measured"]["questions"].as_u64() > Some(0);
        if is_settled || !is_awaited || waited > INDEX_WAIT_MAX {
            return Ok(Index { told, waited });
        }
        if waited < INDEX_LOOK {
            note("waiting for the vector index");
        }
        tokio::time::sleep(INDEX_LOOK).await;
    }
}

/// Takes the index away, so that it is trained on other beginnings; none where the server is not ours, or there is no index.
pub(super) async fn anew(host: &Host, rows: usize) -> Result<Option<Index>, Failure> {
    let Some(admin) = host.admin().await? else { return Ok(None) };
    let Some(setting) = setting(&admin).await? else { return Ok(None) };
    let there = index_state(&admin, &setting.attribute()).await.map_err(failed)?;
    let Some(id) = there.id else { return Ok(None) };
    drop_vector_index(&admin, &id).await.map_err(failed)?;
    loop {
        // The server makes it anew by itself, when it is asked how it is.
        let told = host.client().ready().await?["vector_index"].clone();
        if told["state"] != "none" && told["measured"].is_null() {
            return wait(host, rows).await.map(Some);
        }
        tokio::time::sleep(INDEX_LOOK).await;
    }
}

/// Share of the vectors that lie in the cells looked into, over some of the queries; none where the server is not ours or has no index.
pub(super) async fn scanned(
    host: &Host,
    index: &Index,
    vectors: &Vectors,
    n_probe: u64,
) -> Result<Option<f64>, Failure> {
    if index.told["state"] != "ready" {
        return Ok(None);
    }
    let Some(admin) = host.admin().await? else { return Ok(None) };
    let Some(setting) = setting(&admin).await? else { return Ok(None) };
    let rows = vectors.stored.len() as u64;
    let (mut counted, mut asked) = (0, 0);
    for query in vectors.asked.iter().take(COUNTED_MAX) {
        let wide: Vec<f64> = query.iter().map(|c| f64::from(*c)).collect();
        counted += sample_scanned(&admin, &setting, &wide, n_probe, rows).await.map_err(failed)?;
        asked += rows;
    }
    Ok((asked > 0).then(|| counted as f64 / asked as f64))
}

async fn setting(admin: &Admin) -> Result<Option<VectorSetting>, Failure> {
    setting_of(admin).await.map_err(failed)
}

fn failed(fault: Fault) -> Failure {
    Failure::internal(format!("the database of the own server: {fault}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_index_is_told_as_readiness_tells_it() {
        let of = |told| Index { told, waited: Duration::from_millis(1_500) };
        let told = json!({"state": "ready", "nLists": 300, "measured": {"nProbe": 24, "recall": 0.984, "questions": 48, "scanned": 0.0871}});
        let text = of(told).told();
        for part in ["300 cells", "1.5 s", "nProbe 24", "0.984", "48 questions", "8.7 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(of(json!({"state": "none"})).told(), "the index: none");
    }
}
