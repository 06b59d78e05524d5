//! Follows the relations of an item of memory step by step, up to the depth and size limits of the
//! trace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::executor::Executor;
use super::kernel::patience;
use crate::store::{self, Led};
use vctx_core::error::Result;
use vctx_core::memory::edges::cited_digest;
use vctx_core::trust::{
    Principal, Scope, Trace, TraceQuery, TraceStep, Vertex, VertexId, admit, nothing_to_trace,
};

impl Executor {
    /// Follows the relations that a trace request names. An item with several paths is listed once,
    /// with its shortest path.
    pub(super) async fn trace(&self, scope: &Scope, query: &TraceQuery) -> Result<Trace> {
        let first = self.vertices(scope, std::slice::from_ref(&query.from)).await?;
        let Some(first) = first.into_iter().next() else { return Ok(Trace::default()) };
        let mut seen = BTreeSet::from([first.id.clone()]);
        let start = TraceStep { vertex: first, by: None, depth: 0, detail: None };
        let mut traced = Trace { reached: vec![start], more: false };
        let mut begin = 0;
        for depth in 1..=query.depth {
            let end = traced.reached.len();
            if begin == end {
                break;
            }
            let room = query.limit + 1 - end as u64;
            let level = traced.reached[begin..end].iter().enumerate();
            let starts: Vec<(u64, &Vertex)> =
                level.map(|(at, one)| ((begin + at) as u64, &one.vertex)).collect();
            let mut led =
                self.kernel.read(|ro| store::led(ro, scope, &starts, query, room + 1)).await?;
            led.retain(|one| seen.insert(one.to.clone()));
            // Relations beyond the trace's limit are not followed.
            if led.len() as u64 > room {
                led.truncate(usize::try_from(room).unwrap_or(usize::MAX));
                traced.more = true;
            }
            let next = self.joined(scope, led, depth).await?;
            traced.reached.extend(next);
            begin = end;
            if traced.more {
                break;
            }
        }
        Ok(traced)
    }

    /// Returns the agent's memory items with the given ids.
    pub(super) async fn vertices(&self, scope: &Scope, places: &[VertexId]) -> Result<Vec<Vertex>> {
        self.kernel.read(|ro| store::vertices(ro, scope, places)).await
    }

    /// Returns the memory items that a step of the trace reached, in the step's order. Leaves out
    /// missing items and those of other agents.
    async fn joined(&self, scope: &Scope, led: Vec<Led>, depth: u64) -> Result<Vec<TraceStep>> {
        if led.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<VertexId> =
            led.iter().filter_map(|one| VertexId::parse(&one.to, scope).ok()).collect();
        let found = self.vertices(scope, &places).await?;
        let by_id: BTreeMap<&str, &Vertex> = found.iter().map(|v| (v.id.as_str(), v)).collect();
        let mut reached: Vec<TraceStep> = led
            .into_iter()
            .filter_map(|one| {
                let vertex = (*by_id.get(one.to.as_str())?).clone();
                Some(TraceStep { vertex, by: Some((one.of, one.by)), depth, detail: one.detail })
            })
            .collect();
        self.compare_cited(scope, &mut reached).await?;
        Ok(reached)
    }

    /// For each cited chunk whose document was ingested again, records whether the chunk's text has
    /// changed.
    async fn compare_cited(&self, scope: &Scope, reached: &mut [TraceStep]) -> Result<()> {
        let later = |one: &TraceStep| {
            let cited = one.detail.as_ref().and_then(|d| d.get("revision")).and_then(Value::as_str);
            one.vertex.kind == "chunk" && cited.is_some_and(|cited| cited != one.vertex.revision)
        };
        let keys: Vec<String> =
            reached.iter().filter(|one| later(one)).map(|one| one.vertex.key.clone()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let now = self.kernel.read(|ro| store::passages(ro, scope, &keys)).await?;
        for one in reached.iter_mut().filter(|one| later(one)) {
            let text = now.iter().find(|passage| passage.key == one.vertex.key);
            let digest = text.map(|passage| cited_digest(&passage.text));
            let Some(detail) = &mut one.detail else { continue };
            let same = digest.as_deref() == detail.get("digest").and_then(Value::as_str);
            detail.insert("changed".into(), (!same).into());
        }
        Ok(())
    }

    /// Returns a whole trace on one page, for human readers: every item with the beginning of its
    /// text.
    pub async fn traced(
        &self,
        principal: &Principal,
        agent: &str,
        from: &str,
        query: impl FnOnce(VertexId) -> Result<TraceQuery>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let query = query(VertexId::parse(from, &scope)?)?;
        let traced = self.trace(&scope, &query).await?;
        if traced.reached.is_empty() {
            return Err(nothing_to_trace());
        }
        let told = |one: &TraceStep| TraceStep {
            vertex: self.taint.vertex(&core, &one.vertex),
            ..one.clone()
        };
        let entries = traced.reached.iter().enumerate();
        let entries: Vec<Value> = entries.map(|(n, one)| whole(n as u64, &told(one))).collect();
        Ok(
            json!({"agent": scope.agent(), "_rev": core.rev, "entries": entries, "more": traced.more}),
        )
    }
}

/// Returns all fields of a traced memory item.
fn whole(number: u64, one: &TraceStep) -> Value {
    let mut map: Map<String, Value> = one.attributes(number);
    map.insert("depth".into(), one.depth.into());
    map.insert("kind".into(), one.vertex.kind.as_str().into());
    map.extend(one.detail.iter().flatten().map(|(n, v)| (n.clone(), v.clone())));
    if let Some(offset) = one.vertex.offset {
        map.insert("offset".into(), json!(offset));
    }
    map.insert("text".into(), one.vertex.text.as_str().into());
    map.insert("chars".into(), one.vertex.chars.into());
    Value::Object(map)
}
