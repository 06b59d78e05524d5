//! The order of results in a window, because models read the edges of a window better than the
//! middle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Order of the results, and of their copies in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Order {
    /// Results best first; copies in the window in the order of the conversation.
    #[default]
    Usual,
    /// The best result last, next to the text that follows; the second best first; the weakest in
    /// the middle. This order applies to the results and to the window.
    Edges,
}

impl Order {
    /// Rearranges a list that is sorted best first.
    pub fn arrange<T>(self, ranked: Vec<T>) -> Vec<T> {
        match self {
            Self::Usual => ranked,
            Self::Edges => at_edges(ranked),
        }
    }
}

/// Puts ranks 2, 4, 6, … at the start and ranks …, 5, 3, 1 at the end, so that better ranks are
/// nearer to an edge.
fn at_edges<T>(ranked: Vec<T>) -> Vec<T> {
    let (mut start, mut end) = (Vec::with_capacity(ranked.len()), Vec::new());
    for (at, one) in ranked.into_iter().enumerate() {
        if at % 2 == 0 { &mut end } else { &mut start }.push(one);
    }
    start.extend(end.into_iter().rev());
    start
}
