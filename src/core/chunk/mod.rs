//! Splits documents into chunks, checks the evidence of late chunking, and lays out search results
//! on pages.

mod bounds;
mod evidence;
mod layout;
mod pages;
mod semantic;
mod split;

pub use evidence::{
    IngestCandidate, LateChunking, Mode, Naive, Pooling, check, check_alone, check_part, samples,
};
pub use layout::{laid_out, restored};
pub use pages::{Detail, Leaf, Piece, View, gone, id, page_cost, pages, part_value};
pub use semantic::sentences;
pub use split::{By, Cut, Splitter, again, split, split_by_meaning};
