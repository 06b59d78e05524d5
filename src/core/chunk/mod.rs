//! Chunks of documents: the evidence that their vectors were made in the light of the whole document, and the pages they are shown on.

mod bounds;
mod evidence;
mod layout;
mod pages;
mod semantic;
mod split;

pub use evidence::{
    LateChunking, Mode, Naive, Offered, Pooling, check, check_alone, check_part, samples,
};
pub use layout::{laid_out, restored};
pub use pages::{Leaf, Piece, Told, View, gone, id, page_cost, pages, shown};
pub use semantic::sentences;
pub use split::{By, Cut, Splitter, again, split, split_by_meaning};
