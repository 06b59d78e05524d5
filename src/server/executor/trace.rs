//! Traces: step by step from one entry of a memory to what is joined to it, until the depth or the limit is reached.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::executor::{Executor, patience};
use crate::store::{self, Led};
use vctx_core::error::Result;
use vctx_core::memory::joined::cited_digest;
use vctx_core::policy::{
    Place, Principal, Reached, Scope, TraceQuery, Traced, Vertex, admit, nothing_to_trace,
};

impl Executor {
    /// Follows the relations of a query. What is reached twice is told once, by the shortest way.
    pub(super) async fn trace(&self, scope: &Scope, query: &TraceQuery) -> Result<Traced> {
        let first = self.vertices(scope, std::slice::from_ref(&query.from)).await?;
        let Some(first) = first.into_iter().next() else { return Ok(Traced::default()) };
        let mut seen = BTreeSet::from([first.id.clone()]);
        let start = Reached { vertex: first, by: None, depth: 0, detail: None };
        let mut traced = Traced { reached: vec![start], more: false };
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
            let ask = || store::led(&self.ro, scope, &starts, query, room + 1);
            let mut led = self.patiently(ask).await?;
            led.retain(|one| seen.insert(one.to.clone()));
            // Whether a path that is cut off here would have gone on is not looked at.
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

    /// The agent's entries at some places.
    pub(super) async fn vertices(&self, scope: &Scope, places: &[Place]) -> Result<Vec<Vertex>> {
        self.patiently(|| store::vertices(&self.ro, scope, places)).await
    }

    /// The entries that a step led to, in its order. An end that is not there, or not the agent's, is no entry.
    async fn joined(&self, scope: &Scope, led: Vec<Led>, depth: u64) -> Result<Vec<Reached>> {
        if led.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<Place> =
            led.iter().filter_map(|one| Place::parse(&one.to, scope).ok()).collect();
        let found = self.vertices(scope, &places).await?;
        let by_id: BTreeMap<&str, &Vertex> = found.iter().map(|v| (v.id.as_str(), v)).collect();
        let mut reached: Vec<Reached> = led
            .into_iter()
            .filter_map(|one| {
                let vertex = (*by_id.get(one.to.as_str())?).clone();
                Some(Reached { vertex, by: Some((one.of, one.by)), depth, detail: one.detail })
            })
            .collect();
        self.compare_cited(scope, &mut reached).await?;
        Ok(reached)
    }

    /// A chunk whose document was taken in again since it was cited: whether its text is another one now.
    async fn compare_cited(&self, scope: &Scope, reached: &mut [Reached]) -> Result<()> {
        let later = |one: &Reached| {
            let cited = one.detail.as_ref().and_then(|d| d.get("revision")).and_then(Value::as_str);
            one.vertex.kind == "chunk" && cited.is_some_and(|cited| cited != one.vertex.revision)
        };
        let keys: Vec<String> =
            reached.iter().filter(|one| later(one)).map(|one| one.vertex.key.clone()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let now = self.patiently(|| store::passages(&self.ro, scope, &keys)).await?;
        for one in reached.iter_mut().filter(|one| later(one)) {
            let text = now.iter().find(|passage| passage.key == one.vertex.key);
            let digest = text.map(|passage| cited_digest(&passage.text));
            let Some(detail) = &mut one.detail else { continue };
            let same = digest.as_deref() == detail.get("digest").and_then(Value::as_str);
            detail.insert("changed".into(), (!same).into());
        }
        Ok(())
    }

    /// A whole trace, for people: every entry with its text up to a bound, without pages.
    pub async fn traced(
        &self,
        principal: &Principal,
        agent: &str,
        from: &str,
        query: impl FnOnce(Place) -> Result<TraceQuery>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (core, _) = self.fresh(&scope, "", patience()).await?;
        let query = query(Place::parse(from, &scope)?)?;
        let traced = self.trace(&scope, &query).await?;
        if traced.reached.is_empty() {
            return Err(nothing_to_trace());
        }
        let told = |one: &Reached| Reached {
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

/// Everything that is known of an entry.
fn whole(number: u64, one: &Reached) -> Value {
    let mut map: Map<String, Value> = one.told(number);
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
