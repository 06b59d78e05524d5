//! Traces: entries of a memory by their ids, and one step from some of them.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::limits::{TRACE_CHARS_MAX, TRACE_EDGES_MAX, TRACE_REACH_SEQS};
use vctx_core::policy::{Place, Scope, TraceQuery, Vertex};

/// Entries.
pub(super) const LOAD: Query = query!("trace_load");
/// One step.
pub(super) const STEP: Query = query!("trace_step");

/// An edge that a step found.
#[derive(Clone, Debug, Deserialize)]
pub struct Led {
    /// Place in the list of the entry that it leads away from.
    pub of: u64,
    /// The relation.
    pub by: String,
    /// The id that it leads to.
    pub to: String,
    /// What the edge says.
    pub detail: Option<Map<String, Value>>,
}

/// The agent's entries at some places, in no order; those that are not there are left out.
pub async fn vertices(ro: &Ro, scope: &Scope, places: &[Place]) -> Result<Vec<Vertex>, Fault> {
    let (mut messages, mut chunks, mut versions, mut cores) = (vec![], vec![], vec![], vec![]);
    let mut seq = None;
    for place in places {
        match place {
            Place::Seq(number) => seq = Some(*number),
            Place::Message(key) => messages.push(key),
            Place::Chunk(key) => chunks.push(key),
            Place::Version(key) => versions.push(key),
            Place::Agent(key) => cores.push(key),
        }
    }
    let binds = Binds::of(
        scope,
        [
            ("messages", json!(messages)),
            ("seq", json!(seq)),
            ("chunks", json!(chunks)),
            ("versions", json!(versions)),
            ("cores", json!(cores)),
            ("chars_max", TRACE_CHARS_MAX.into()),
        ],
    );
    ro.rows(LOAD, binds).await
}

/// Where entries lead. `starts`: each with its place in the list; `fan`: most ends of one by one relation.
pub async fn led(
    ro: &Ro,
    scope: &Scope,
    starts: &[(u64, &Vertex)],
    query: &TraceQuery,
    fan: u64,
) -> Result<Vec<Led>, Fault> {
    let starts: Vec<Value> = starts
        .iter()
        .map(|(of, vertex)| {
            json!({"of": of, "id": vertex.id, "key": vertex.key, "kind": vertex.kind, "seq": vertex.seq,
                "copy_of": vertex.copy_of, "doc_id": vertex.doc_id, "index": vertex.index, "parent": vertex.parent,
                "summary": vertex.summary})
        })
        .collect();
    let binds = Binds::of(
        scope,
        [
            ("starts", Value::Array(starts)),
            ("follow", json!(query.follow)),
            ("around", query.around.into()),
            ("reach", TRACE_REACH_SEQS.into()),
            ("fan", fan.into()),
            ("edges_max", TRACE_EDGES_MAX.into()),
        ],
    );
    ro.rows(STEP, binds).await
}
