//! The vector index under test. The functions of this module wait for the index, describe the
//! index, and train it again if this run started the server. They read the sizes of the index's
//! lists from the database, because no tool reports these sizes.

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

/// Longest wait for the vector index, and the pause between two checks.
const INDEX_WAIT_MAX: Duration = Duration::from_secs(1_800);
const INDEX_LOOK: Duration = Duration::from_millis(500);
/// Number of queries for which the benchmark counts the vectors in the lists that a search reads.
const COUNTED_MAX: usize = 50;

/// State of the vector index, as the server's readiness answer reports it.
pub(super) struct Index {
    told: Value,
    waited: Duration,
}

impl Index {
    /// Returns the state of the index as a sentence for the report.
    pub(super) fn sentence(&self) -> String {
        let measured = &self.told["measured"];
        match self.told["state"].as_str() {
            Some("ready") => format!(
                "an index of {} lists, ready and measured {:.1} s after the last ingest (nProbe {}: recall {:.3} over {} questions made of stored vectors, {:.1} % of the vectors scanned)",
                self.told["nLists"],
                self.waited.as_secs_f64(),
                measured["nProbe"],
                measured["recall"].as_f64().unwrap_or(0.0),
                measured["questions"],
                measured["scanned"].as_f64().unwrap_or(0.0) * 100.0,
            ),
            Some(state) => format!("the index: {state}"),
            None => "the server reports no vector index".into(),
        }
    }
}

/// Waits until the training and the calibration of the vector index are done. If there are few
/// vectors, the server compares each query with every vector and needs no index.
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

/// Drops the vector index, so that the server trains a new index from another seed. Returns `None`
/// if this run did not start the server, or if there is no index.
pub(super) async fn anew(host: &Host, rows: usize) -> Result<Option<Index>, Failure> {
    let Some(admin) = host.admin().await? else { return Ok(None) };
    let Some(setting) = setting(&admin).await? else { return Ok(None) };
    let there = index_state(&admin, &setting.attribute()).await.map_err(failed)?;
    let Some(id) = there.id else { return Ok(None) };
    drop_vector_index(&admin, &id).await.map_err(failed)?;
    loop {
        // The server rebuilds the vector index at the next readiness request.
        let told = host.client().ready().await?["vector_index"].clone();
        if told["state"] != "none" && told["measured"].is_null() {
            return wait(host, rows).await.map(Some);
        }
        tokio::time::sleep(INDEX_LOOK).await;
    }
}

/// Returns the share of the stored vectors that a query reads from the index lists, as the mean
/// over several queries. Returns `None` if this run did not start the server, or if there is no
/// index.
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
    Failure::internal(format!("the database of the server that this run started: {fault}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_index_is_told_as_readiness_tells_it() {
        let of = |told| Index { told, waited: Duration::from_millis(1_500) };
        let told = json!({"state": "ready", "nLists": 300, "measured": {"nProbe": 24, "recall": 0.984, "questions": 48, "scanned": 0.0871}});
        let text = of(told).sentence();
        for part in ["300 lists", "1.5 s", "nProbe 24", "0.984", "48 questions", "8.7 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(of(json!({"state": "none"})).sentence(), "the index: none");
    }
}
