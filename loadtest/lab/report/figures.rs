//! Computes figures from the events of an agent: the window over time, evictions, searches,
//! heartbeat chains.

use serde_json::Value;

use vctx_cli::output::{field, number};
use vctx_core::window::Section;

/// Size of the context window after one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    /// Time of the write.
    pub(super) ts: String,
    /// Tokens of each section of the window, in drawing order.
    pub(super) sections: Vec<u64>,
    /// Sizes of the window's target, warning and flush marks and of the whole window, in tokens.
    pub(super) marks: [u64; 4],
    /// Whether the write evicted messages.
    pub(super) evicts: bool,
}

impl Point {
    /// Returns the number of tokens in use, over all sections of the window.
    pub(super) fn occupancy(&self) -> u64 {
        self.sections.iter().sum()
    }
}

/// One heartbeat chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) id: String,
    pub(super) started: String,
    /// Depth, duration in milliseconds, and reason for the end of a heartbeat chain; `None` for a
    /// chain that has not ended.
    pub(super) ended: Option<(u64, u64, String)>,
}

/// All figures computed from the events of an agent.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) points: Vec<Point>,
    /// Details of each `flush` event, with the event's time `ts`.
    pub(super) evictions: Vec<Value>,
    pub(super) chains: Vec<Chain>,
    /// Number of writes of each tool, in order of first use.
    pub(super) writes: Vec<(String, u64)>,
    /// Number of `error` events of each code.
    pub(super) errors: Vec<(String, u64)>,
    /// Number of memory pressure notices that the server set.
    pub(super) warnings: u64,
}

impl Figures {
    /// Computes the figures from events, which are ordered from old to new.
    pub(super) fn of(events: &[Value]) -> Figures {
        let mut figures = Figures::default();
        let mut evicted = false;
        for event in events {
            match field(event, "/type").as_str() {
                // An audit row without a tool is that of a run from an earlier version.
                "audit" if event["details"]["tool"].is_string() => {
                    let tool = field(event, "/details/tool");
                    count(&mut figures.writes, tool);
                    figures.points.push(point(event, std::mem::take(&mut evicted)));
                }
                "flush" => {
                    evicted = true;
                    figures.evictions.push(with_time(event));
                }
                "hb_start" => figures.chains.push(Chain {
                    id: field(event, "/details/chain"),
                    started: field(event, "/ts"),
                    ended: None,
                }),
                "hb_end" => figures.end(event),
                "error" => count(&mut figures.errors, field(event, "/details/code")),
                "warning" => figures.warnings += 1,
                _ => {}
            }
        }
        figures
    }

    fn end(&mut self, event: &Value) {
        let id = field(event, "/details/chain");
        let end = (
            number(event, "/details/chain_depth"),
            number(event, "/details/duration_ms"),
            field(event, "/details/reason"),
        );
        match self.chains.iter_mut().rev().find(|chain| chain.id == id) {
            Some(chain) => chain.ended = Some(end),
            // The heartbeat chain started before the first event that was read.
            None => self.chains.push(Chain { id, started: String::new(), ended: Some(end) }),
        }
    }

    /// Returns the number of searches that wrote data. A search writes if it puts copies of
    /// messages into the queue, stores its result list for further pages, spools a large result, or
    /// requests a heartbeat.
    pub(super) fn searches(&self) -> u64 {
        let of = |name: &str| self.writes.iter().find(|(tool, _)| tool == name).map_or(0, |w| w.1);
        of("search_recall") + of("search_archival")
    }
}

fn with_time(event: &Value) -> Value {
    let mut details = event["details"].clone();
    if let Some(map) = details.as_object_mut() {
        map.insert("ts".into(), event["ts"].clone());
    }
    details
}

fn point(event: &Value, evicts: bool) -> Point {
    let after = |section: &str| number(event, &format!("/details/tokens_after/{section}"));
    let mark = |name: &str| number(event, &format!("/details/policy/{name}"));
    Point {
        ts: field(event, "/ts"),
        sections: Section::drawn().map(|section| after(section.name())).collect(),
        marks: [mark("target"), mark("warning"), mark("flush"), mark("max")],
        evicts,
    }
}

fn count(counts: &mut Vec<(String, u64)>, name: String) {
    match counts.iter_mut().find(|(known, _)| *known == name) {
        Some((_, times)) => *times += 1,
        None => counts.push((name, 1)),
    }
}

/// Returns all points with their numbers from 0, or a selection if there are more than `most`
/// points. The selection contains the points with the highest and the lowest occupancy of each
/// group of neighbours.
pub(super) fn thinned(points: &[Point], most: usize) -> Vec<(usize, &Point)> {
    if points.len() <= most || most == 0 {
        return points.iter().enumerate().collect();
    }
    let run = points.len().div_ceil(most.div_ceil(2));
    let mut kept = Vec::new();
    for (number, run) in points.chunks(run).enumerate().map(|(at, group)| (at * run, group)) {
        let fullest = run.iter().enumerate().max_by_key(|(_, p)| p.occupancy()).map(|(at, _)| at);
        let emptiest = run.iter().enumerate().min_by_key(|(_, p)| p.occupancy()).map(|(at, _)| at);
        let (Some(a), Some(b)) = (fullest, emptiest) else { continue };
        kept.push((number + a.min(b), &run[a.min(b)]));
        if a != b {
            kept.push((number + a.max(b), &run[a.max(b)]));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn audit(ts: &str, tool: &str, fifo: u64) -> Value {
        json!({"type": "audit", "ts": ts, "details": {"tool": tool,
            "tokens_after": {"system": 10, "working": 5, "summary": 1, "notices": 0, "fifo": fifo},
            "policy": {"target": 50, "warning": 70, "flush": 90, "max": 100}}})
    }

    #[test]
    fn events_become_points_evictions_and_chains() {
        let events = [
            audit("t1", "append_fifo", 40),
            json!({"type": "warning", "ts": "t2", "details": {}}),
            json!({"type": "flush", "ts": "t3", "details": {"evicted_count": 4}}),
            audit("t3", "append_fifo", 30),
            json!({"type": "hb_start", "ts": "t4", "details": {"chain": "c"}}),
            json!({"type": "hb_end", "ts": "t5", "details": {"chain": "c", "chain_depth": 3, "duration_ms": 9, "reason": "tokens"}}),
            json!({"type": "hb_end", "ts": "t6", "details": {"chain": "before", "chain_depth": 1, "duration_ms": 2, "reason": "depth"}}),
            json!({"type": "error", "ts": "t7", "details": {"code": "PIN_LIMIT_EXCEEDED"}}),
            audit("t8", "search_recall", 44),
        ];
        let figures = Figures::of(&events);
        let full: Vec<(u64, bool)> =
            figures.points.iter().map(|p| (p.occupancy(), p.evicts)).collect();
        assert_eq!(full, [(56, false), (46, true), (60, false)]);
        assert_eq!(figures.evictions[0], json!({"evicted_count": 4, "ts": "t3"}));
        let ends: Vec<_> = figures.chains.iter().map(|c| c.ended.clone().unwrap()).collect();
        assert_eq!(ends, [(3, 9, "tokens".into()), (1, 2, "depth".into())]);
        assert_eq!(figures.writes, [("append_fifo".into(), 2), ("search_recall".into(), 1)]);
        assert_eq!((figures.searches(), figures.warnings, figures.errors.len()), (1, 1, 1));
    }

    #[test]
    fn thinning_keeps_the_fullest_and_the_emptiest_of_each_run() {
        let points: Vec<Point> = (0..1000)
            .map(|at| point(&audit("t", "x", if at == 501 { 900 } else { at % 7 }), false))
            .collect();
        let kept = thinned(&points, 100);
        assert!(kept.len() <= 100 && kept.len() > 50, "{}", kept.len());
        assert!(kept.iter().any(|(number, p)| *number == 501 && p.occupancy() == 916));
        assert!(kept.iter().all(|(number, p)| std::ptr::eq(&points[*number], *p)));
        assert_eq!(thinned(&points[..5], 100).len(), 5);
    }
}
