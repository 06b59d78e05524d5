//! Loads items of a memory by id, and follows their relations by one step of a trace.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::limits::TRACE_CHARS_MAX;
use vctx_core::trust::{Scope, TraceQuery, Vertex, VertexId};

/// Number of positions before and after a message among which the message's neighbours are searched
/// for; copies and spooled entries do not count as neighbours.
const TRACE_REACH_SEQS: u64 = 64;
/// Maximum number of chunks made from one message that a step of a trace sorts.
const TRACE_EDGES_MAX: u64 = 1_024;

queries! {
    LOAD = "trace_load",
    STEP = "trace_step",
}

/// An edge that a step of a trace found.
#[derive(Clone, Debug, Deserialize)]
pub struct Led {
    /// Index, in the list of start items, of the item at which the edge begins.
    pub of: u64,
    /// Name of the relation.
    pub by: String,
    /// Id of the item at which the edge ends.
    pub to: String,
    /// Attributes of the edge, if any.
    pub detail: Option<Map<String, Value>>,
}

/// Returns the agent's memory items with the given ids, in any order; leaves out missing items.
pub async fn vertices(ro: &Ro, scope: &Scope, places: &[VertexId]) -> Result<Vec<Vertex>> {
    let (mut messages, mut chunks, mut versions, mut cores) = (vec![], vec![], vec![], vec![]);
    let mut seq = None;
    for place in places {
        match place {
            VertexId::Seq(number) => seq = Some(*number),
            VertexId::Message(key) => messages.push(key),
            VertexId::Chunk(key) => chunks.push(key),
            VertexId::Version(key) => versions.push(key),
            VertexId::Agent(key) => cores.push(key),
        }
    }
    let binds = binds!(scope; messages, seq, chunks, versions, cores, chars_max = TRACE_CHARS_MAX);
    ro.rows(LOAD, binds).await
}

/// Returns the edges that begin at the given items. `starts` lists these items, each with its
/// index. `fan` is the maximum number of edges that are returned for one item and one relation.
pub async fn led(
    ro: &Ro,
    scope: &Scope,
    starts: &[(u64, &Vertex)],
    query: &TraceQuery,
    fan: u64,
) -> Result<Vec<Led>> {
    let starts: Vec<Value> = starts
        .iter()
        .map(|(of, vertex)| {
            json!({"of": of, "id": vertex.id, "key": vertex.key, "kind": vertex.kind, "seq": vertex.seq,
                "copy_of": vertex.copy_of, "doc_id": vertex.doc_id, "index": vertex.index, "parent": vertex.parent,
                "summary": vertex.summary})
        })
        .collect();
    let binds = binds!(scope;
        starts = Value::Array(starts), follow = query.follow, around = query.around,
        reach = TRACE_REACH_SEQS, fan, edges_max = TRACE_EDGES_MAX
    );
    ro.rows(STEP, binds).await
}
