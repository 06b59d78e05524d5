//! Path searches: SHORTEST_PATH, ALL_SHORTEST_PATHS, K_SHORTEST_PATHS and K_PATHS between two
//! vertices.
//!
//! The edges of a vertex are read once and cached during the search. No path visits a vertex twice.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::executor::{Executor, Flow, Pass};
use super::traverse::{EDGES_BATCH, INWARDS, OUTWARDS, weight_of};
use super::weighed::Weighed;
use crate::error::{Code, Error, Result};
use crate::expr::Row;
use crate::limits::TRAVERSAL_EDGES_MAX;
use crate::plan::{Followed, Traversal};
use crate::schema::IndexKind;
use crate::syntax::{Direction, PathSearch};
use crate::txn::IndexRange;
use crate::value::{Object, Value};

/// Memory size of an edge in a path search, in bytes, without the edge's values.
const HOP_BYTES: usize = 96;

/// An edge and the vertex it leads to.
struct Hop {
    edge: Value,
    to: Arc<str>,
    weight: f64,
}

/// The edges of a path, in order from the start vertex.
type Path = Vec<Arc<Hop>>;
type Hops = Arc<Vec<Arc<Hop>>>;
/// For each visited vertex, the edge that led to it and the vertex before it.
type Predecessors = HashMap<Arc<str>, (Option<Arc<Hop>>, Arc<str>)>;

/// The state of one search.
struct PathQuery<'q> {
    traversal: &'q Traversal,
    start: Arc<str>,
    target: Arc<str>,
    /// The edges that leave each vertex.
    onwards: HashMap<Arc<str>, Hops>,
    /// The edges that enter each vertex; `to` of such an edge is the vertex it comes from.
    backwards: HashMap<Arc<str>, Hops>,
    edges: u64,
    held: u64,
}

/// An item in the queue of the search for the lightest path: the edge to a vertex, and the vertex
/// before it.
type QueueEntry = Reverse<Weighed<(Option<Arc<Hop>>, Arc<str>)>>;

/// A candidate for the next path in the order of weight.
struct Candidate {
    /// Number of first edges that the candidate shares with the path from which it was derived.
    leaves: usize,
    path: Path,
}

/// Returns a candidate path for the queue. Among candidates of equal weight, the one with the
/// largest `number` comes first.
fn candidate(number: u64, leaves: usize, path: Path) -> Weighed<Candidate> {
    let weight = path.iter().map(|hop| hop.weight).sum();
    Weighed { weight, number: u64::MAX - number, item: Candidate { leaves, path } }
}

impl<'q> Executor<'q> {
    /// Sends the paths between two vertices to the next node.
    pub(super) fn find_paths(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        traversal: &'q Traversal,
    ) -> Result<Flow> {
        let start = self.end_of(&traversal.start, row)?;
        let target = match &traversal.target {
            Some(target) => self.end_of(target, row)?,
            None => None,
        };
        let (Some(start), Some(target)) = (start, target) else { return Ok(Flow::More) };
        if !self.is_there(&start)? || !self.is_there(&target)? {
            return Ok(Flow::More);
        }
        let mut quest = PathQuery {
            traversal,
            start,
            target,
            onwards: HashMap::new(),
            backwards: HashMap::new(),
            edges: 0,
            held: 0,
        };
        let flow = match traversal.search {
            PathSearch::KPaths => self.k_paths(&mut quest, pass, at, row),
            PathSearch::AllShortest => self.all_shortest(&mut quest, pass, at, row),
            PathSearch::KShortest => self.k_shortest(&mut quest, pass, at, row),
            PathSearch::Shortest | PathSearch::Traversal => {
                self.shortest(&mut quest, pass, at, row)
            }
        };
        self.budget.let_go(quest.held);
        flow
    }

    fn is_there(&mut self, id: &str) -> Result<bool> {
        let Some((collection, key)) = id.split_once('/') else { return Ok(false) };
        let Some(collection) = self.database.collections.get(collection) else { return Ok(false) };
        Ok(self.transaction.get(collection, key)?.is_some())
    }

    /// Returns the edges that leave a vertex, reading the edges on first use.
    fn hops(&mut self, quest: &mut PathQuery<'q>, id: &Arc<str>) -> Result<Hops> {
        if let Some(hops) = quest.onwards.get(id) {
            return Ok(Arc::clone(hops));
        }
        let hops = Arc::new(self.read_hops(quest, id, false)?);
        quest.onwards.insert(Arc::clone(id), Arc::clone(&hops));
        Ok(hops)
    }

    /// Returns the edges that enter a vertex, reading the edges on first use.
    fn hops_back(&mut self, quest: &mut PathQuery<'q>, id: &Arc<str>) -> Result<Hops> {
        if let Some(hops) = quest.backwards.get(id) {
            return Ok(Arc::clone(hops));
        }
        let hops = Arc::new(self.read_hops(quest, id, true)?);
        quest.backwards.insert(Arc::clone(id), Arc::clone(&hops));
        Ok(hops)
    }

    /// Reads the edges that leave a vertex, or with `back` the edges that enter the vertex.
    fn read_hops(
        &mut self,
        quest: &mut PathQuery<'q>,
        id: &Arc<str>,
        back: bool,
    ) -> Result<Vec<Arc<Hop>>> {
        let mut hops = Vec::new();
        let traversal = quest.traversal;
        for Followed { collection, direction } in &traversal.edges {
            let ways: &[_] = match (direction, back) {
                (Direction::Outbound, false) | (Direction::Inbound, true) => &[OUTWARDS],
                (Direction::Inbound, false) | (Direction::Outbound, true) => &[INWARDS],
                (Direction::Any, _) => &[OUTWARDS, INWARDS],
            };
            let collection = &self.plan.collections[*collection].collection;
            let index = collection.indexes.iter().find(|index| index.kind == IndexKind::Edge);
            let index = index.ok_or_else(|| Error::of(Code::IndexNotFound))?;
            for (field, other) in ways {
                let here = Value::String(Arc::clone(id));
                let range = IndexRange { equals: vec![here], ..IndexRange::default() };
                let mut scan =
                    self.transaction.index_scan(collection, index, *field, &range, false)?;
                loop {
                    let edges = self.transaction.next(&mut scan, EDGES_BATCH)?;
                    if edges.is_empty() {
                        break;
                    }
                    for edge in edges {
                        self.count_edge(quest)?;
                        let Value::String(to) = edge.attribute(other) else { continue };
                        if to == *id {
                            continue;
                        }
                        let weight = weight_of(&edge, traversal.weight.as_ref())?;
                        let bytes = edge.size_bytes() + to.len() + HOP_BYTES;
                        self.budget.hold(bytes)?;
                        quest.held += bytes as u64;
                        hops.push(Arc::new(Hop { edge, to, weight }));
                    }
                }
            }
        }
        Ok(hops)
    }

    fn count_edge(&mut self, quest: &mut PathQuery<'q>) -> Result<()> {
        self.stats.scanned_index += 1;
        self.budget.row()?;
        quest.edges += 1;
        if quest.edges > TRAVERSAL_EDGES_MAX {
            let message = format!("path search along more than {TRAVERSAL_EDGES_MAX} edges");
            return Err(Error::new(Code::ResourceLimit, message));
        }
        Ok(())
    }

    /// Returns a path with the fewest edges, found by a search from both ends. Each step advances
    /// the smaller of the two frontiers or, if they are equally large, the one that did not advance
    /// last. If the frontiers meet in several vertices in the same step, the path uses the last of
    /// them.
    fn fewest(
        &mut self,
        quest: &mut PathQuery<'q>,
        from: &Arc<str>,
        without: &HashSet<Arc<str>>,
        not_first: &HashSet<Arc<str>>,
    ) -> Result<Option<Path>> {
        let target = Arc::clone(&quest.target);
        if *from == target {
            return Ok(Some(Vec::new()));
        }
        let mut sides = [
            (
                vec![Arc::clone(from)],
                Predecessors::from([(Arc::clone(from), (None, Arc::clone(from)))]),
            ),
            (
                vec![Arc::clone(&target)],
                Predecessors::from([(Arc::clone(&target), (None, target))]),
            ),
        ];
        let mut back = true;
        loop {
            back = match sides[1].0.len().cmp(&sides[0].0.len()) {
                Ordering::Less => true,
                Ordering::Equal => !back,
                Ordering::Greater => false,
            };
            let (mut met, mut next) = (None, Vec::new());
            for here in std::mem::take(&mut sides[usize::from(back)].0) {
                self.budget.row()?;
                let hops =
                    if back { self.hops_back(quest, &here)? } else { self.hops(quest, &here)? };
                for hop in hops.iter() {
                    let leaves_start = if back { hop.to == *from } else { here == *from };
                    let banned = leaves_start && not_first.contains(edge_id(hop));
                    let known = sides[usize::from(back)].1.contains_key(&hop.to);
                    if banned || known || without.contains(&hop.to) {
                        continue;
                    }
                    let came = (Some(Arc::clone(hop)), Arc::clone(&here));
                    sides[usize::from(back)].1.insert(Arc::clone(&hop.to), came);
                    if sides[usize::from(!back)].1.contains_key(&hop.to) {
                        met = Some(Arc::clone(&hop.to));
                    }
                    next.push(Arc::clone(&hop.to));
                }
            }
            if let Some(middle) = met {
                let mut path = way_back(&sides[0].1, Arc::clone(&middle));
                let mut here = middle;
                while let Some((Some(hop), on)) = sides[1].1.get(&here) {
                    let (edge, weight) = (hop.edge.clone(), hop.weight);
                    path.push(Arc::new(Hop { edge, to: Arc::clone(on), weight }));
                    here = Arc::clone(on);
                }
                return Ok(Some(path));
            }
            if next.is_empty() {
                return Ok(None);
            }
            sides[usize::from(back)].0 = next;
        }
    }

    /// Returns the lightest path from a vertex to the target that avoids the vertices in `without`
    /// and does not begin with an edge in `not_first`.
    fn lightest(
        &mut self,
        quest: &mut PathQuery<'q>,
        from: &Arc<str>,
        without: &HashSet<Arc<str>>,
        not_first: &HashSet<Arc<str>>,
    ) -> Result<Option<Path>> {
        if quest.traversal.weight.is_none() {
            return self.fewest(quest, from, without, not_first);
        }
        let mut came = Predecessors::new();
        let first = Weighed { weight: 0.0, number: 0, item: (None, Arc::clone(from)) };
        let mut ahead: BinaryHeap<QueueEntry> = BinaryHeap::from([Reverse(first)]);
        let mut number = 0;
        while let Some(Reverse(Weighed { weight, item: (hop, before), .. })) = ahead.pop() {
            self.budget.row()?;
            let here = hop.as_ref().map_or_else(|| Arc::clone(from), |hop| Arc::clone(&hop.to));
            if came.contains_key(&here) {
                continue;
            }
            let first = hop.is_none();
            came.insert(Arc::clone(&here), (hop, before));
            if here == quest.target {
                return Ok(Some(way_back(&came, here)));
            }
            for hop in self.hops(quest, &here)?.iter() {
                let banned = first && not_first.contains(edge_id(hop));
                if banned || without.contains(&hop.to) || came.contains_key(&hop.to) {
                    continue;
                }
                number += 1;
                let item = (Some(Arc::clone(hop)), Arc::clone(&here));
                ahead.push(Reverse(Weighed { weight: weight + hop.weight, number, item }));
            }
        }
        Ok(None)
    }

    fn shortest(
        &mut self,
        quest: &mut PathQuery<'q>,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
    ) -> Result<Flow> {
        let start = Arc::clone(&quest.start);
        let found = self.lightest(quest, &start, &HashSet::new(), &HashSet::new())?;
        let Some(path) = found else { return Ok(Flow::More) };
        let steps = path.iter().map(|hop| (&hop.to, hop.edge.clone()));
        for (id, edge) in std::iter::once((&start, Value::Null)).chain(steps) {
            row[quest.traversal.vertex] = self.vertex_of(id)?;
            if let Some(out) = quest.traversal.edge {
                row[out] = edge;
            }
            if self.push(pass, at + 1, row)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    /// Sends the paths to the next node in ascending order of weight.
    fn k_shortest(
        &mut self,
        quest: &mut PathQuery<'q>,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
    ) -> Result<Flow> {
        let start = Arc::clone(&quest.start);
        let mut found: Vec<Path> = Vec::new();
        let mut known = HashSet::new();
        let mut candidates = BTreeSet::new();
        let mut number = 0;
        if let Some(path) = self.lightest(quest, &start, &HashSet::new(), &HashSet::new())? {
            known.insert(names(&path));
            candidates.insert(candidate(number, 0, path));
        }
        while let Some(Weighed { weight, item: next, .. }) = candidates.pop_first() {
            if self.emit(quest, &next.path, Some(weight), pass, at, row)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
            let path = next.path;
            found.push(path.clone());
            for leaves in next.leaves..path.len() {
                let root = &path[..leaves];
                let same = found.iter().filter(|other| {
                    other.len() > leaves
                        && other[..leaves].iter().zip(root).all(|(a, b)| edge_id(a) == edge_id(b))
                });
                let not_first = same.map(|other| Arc::from(edge_id(&other[leaves]))).collect();
                let from = root.last().map_or(&start, |hop| &hop.to);
                let before = std::iter::once(&start).chain(root.iter().map(|hop| &hop.to));
                let without = before.take(leaves).cloned().collect();
                let from = Arc::clone(from);
                let Some(rest) = self.lightest(quest, &from, &without, &not_first)? else {
                    continue;
                };
                let path: Path = root.iter().cloned().chain(rest).collect();
                if known.insert(names(&path)) {
                    number += 1;
                    let bytes = path.len() * HOP_BYTES;
                    self.budget.hold(bytes)?;
                    quest.held += bytes as u64;
                    candidates.insert(candidate(number, leaves, path));
                }
            }
        }
        Ok(Flow::More)
    }

    /// Sends all paths with the fewest edges to the next node.
    fn all_shortest(
        &mut self,
        quest: &mut PathQuery<'q>,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
    ) -> Result<Flow> {
        let mut depths = HashMap::from([(Arc::clone(&quest.start), 0_u64)]);
        let mut ahead = VecDeque::from([Arc::clone(&quest.start)]);
        while let Some(here) = ahead.pop_front() {
            if here == quest.target {
                break;
            }
            let depth = depths.get(&here).copied().unwrap_or_default() + 1;
            for hop in self.hops(quest, &here)?.iter() {
                if !depths.contains_key(&hop.to) {
                    depths.insert(Arc::clone(&hop.to), depth);
                    ahead.push_back(Arc::clone(&hop.to));
                }
            }
        }
        let Some(length) = depths.get(&quest.target).copied() else { return Ok(Flow::More) };
        let onward = |path: &Path, hop: &Hop| {
            depths.get(&hop.to).is_some_and(|depth| *depth == path.len() as u64 + 1)
        };
        self.walk(quest, length, length, &onward, pass, at, row)
    }

    /// Sends all paths whose lengths are in a range to the next node.
    fn k_paths(
        &mut self,
        quest: &mut PathQuery<'q>,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
    ) -> Result<Flow> {
        let (min, max) = (quest.traversal.min, quest.traversal.max);
        // A lower bound of each vertex's distance to the target, used to skip paths that cannot
        // reach the target within `max` edges.
        let mut left = HashMap::from([(Arc::clone(&quest.target), 0_u64)]);
        let mut ahead = VecDeque::from([Arc::clone(&quest.target)]);
        while let Some(here) = ahead.pop_front() {
            let distance = left.get(&here).copied().unwrap_or_default() + 1;
            if distance > max {
                break;
            }
            for hop in self.hops_back(quest, &here)?.iter() {
                if !left.contains_key(&hop.to) {
                    left.insert(Arc::clone(&hop.to), distance);
                    ahead.push_back(Arc::clone(&hop.to));
                }
            }
        }
        let onward = |path: &Path, hop: &Hop| {
            left.get(&hop.to).is_some_and(|left| path.len() as u64 + 1 + left <= max)
        };
        self.walk(quest, min, max, &onward, pass, at, row)
    }

    /// Searches depth first for paths to the target, and sends each path to the next node. A path
    /// is extended only by edges for which `onward` is true.
    #[allow(
        clippy::too_many_arguments,
        reason = "a search needs its node's position and its bounds"
    )]
    fn walk(
        &mut self,
        quest: &mut PathQuery<'q>,
        min: u64,
        max: u64,
        onward: &dyn Fn(&Path, &Hop) -> bool,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
    ) -> Result<Flow> {
        if quest.start == quest.target {
            let none = Vec::new();
            return if min == 0 {
                self.emit(quest, &none, None, pass, at, row)
            } else {
                Ok(Flow::More)
            };
        }
        let start = Arc::clone(&quest.start);
        let mut met = HashSet::from([Arc::clone(&start)]);
        let mut path: Path = Vec::new();
        let mut levels = vec![(self.hops(quest, &start)?, 0)];
        while let Some((hops, next)) = levels.last_mut() {
            self.budget.row()?;
            let Some(hop) = hops.get(*next).cloned() else {
                levels.pop();
                if let Some(hop) = path.pop() {
                    met.remove(&hop.to);
                }
                continue;
            };
            *next += 1;
            if path.len() as u64 >= max || met.contains(&hop.to) || !onward(&path, &hop) {
                continue;
            }
            path.push(Arc::clone(&hop));
            if hop.to == quest.target {
                let long_enough = path.len() as u64 >= min;
                let emitted = long_enough && {
                    self.emit(quest, &path, None, pass, at, row)? == Flow::Enough
                };
                if emitted {
                    return Ok(Flow::Enough);
                }
                path.pop();
                continue;
            }
            met.insert(Arc::clone(&hop.to));
            levels.push((self.hops(quest, &hop.to)?, 0));
        }
        Ok(Flow::More)
    }

    /// Sends a row with `{vertices, edges}`, and `weight` if the query uses weights.
    fn emit(
        &mut self,
        quest: &PathQuery<'q>,
        path: &[Arc<Hop>],
        weight: Option<f64>,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
    ) -> Result<Flow> {
        let Some(out) = quest.traversal.path else { return Ok(Flow::More) };
        let mut vertices = vec![self.vertex_of(&quest.start)?];
        for hop in path {
            vertices.push(self.vertex_of(&hop.to)?);
        }
        let mut object = Object::with_capacity(3);
        object.push_new("vertices", Value::array(vertices));
        object.push_new("edges", Value::array(path.iter().map(|hop| hop.edge.clone()).collect()));
        if let Some(weight) = weight {
            object.push_new("weight", Value::finite(weight).unwrap_or_default());
        }
        row[out] = Value::object(object);
        self.push(pass, at + 1, row)
    }
}

fn edge_id(hop: &Hop) -> &str {
    hop.edge.text_of("_id").unwrap_or_default()
}

/// Returns the ids of a path's edges, which identify the path.
fn names(path: &[Arc<Hop>]) -> Vec<Arc<str>> {
    path.iter().map(|hop| Arc::from(edge_id(hop))).collect()
}

/// Returns the path to a vertex, built backwards from the edges that led to the visited vertices.
fn way_back(came: &Predecessors, target: Arc<str>) -> Path {
    let mut path = Vec::new();
    let mut here = target;
    while let Some((Some(hop), before)) = came.get(&here) {
        path.push(Arc::clone(hop));
        here = Arc::clone(before);
    }
    path.reverse();
    path
}
