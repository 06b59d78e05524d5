//! Where what was found stands in a window: models read the edges of what they are shown better than its middle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which order results are shown, and put back into the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Order {
    /// Results best first; in the window as it was said.
    #[default]
    Usual,
    /// The best last, next to what comes, the second best first, the least in the middle; results and window alike.
    Edges,
}

impl Order {
    /// A list, best first, in the order in which it is shown.
    pub fn arrange<T>(self, ranked: Vec<T>) -> Vec<T> {
        match self {
            Self::Usual => ranked,
            Self::Edges => at_edges(ranked),
        }
    }
}

/// Ranks 2, 4, 6, … from the start, 1, 3, 5, … from the end: the further from an edge, the lower the rank.
fn at_edges<T>(ranked: Vec<T>) -> Vec<T> {
    let (mut start, mut end) = (Vec::with_capacity(ranked.len()), Vec::new());
    for (at, one) in ranked.into_iter().enumerate() {
        if at % 2 == 0 { &mut end } else { &mut start }.push(one);
    }
    start.extend(end.into_iter().rev());
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_one_and_two_are_at_the_edges_and_the_last_is_in_the_middle() {
        for (count, wanted) in [
            (0, vec![]),
            (1, vec![1]),
            (2, vec![2, 1]),
            (3, vec![2, 3, 1]),
            (4, vec![2, 4, 3, 1]),
            (7, vec![2, 4, 6, 7, 5, 3, 1]),
        ] {
            assert_eq!(Order::Edges.arrange((1..=count).collect::<Vec<u32>>()), wanted);
        }
        assert_eq!(Order::Usual.arrange(vec![1, 2, 3]), [1, 2, 3]);
    }

    #[test]
    fn who_is_further_from_an_edge_ranks_lower() {
        let placed = Order::Edges.arrange((0..41_usize).collect());
        let from_edge = |at: usize| at.min(placed.len() - 1 - at);
        let mut by_rank: Vec<(usize, usize)> =
            placed.iter().enumerate().map(|(at, rank)| (*rank, from_edge(at))).collect();
        by_rank.sort_unstable();
        assert!(by_rank.windows(2).all(|two| two[0].1 <= two[1].1), "{by_rank:?}");
    }
}
