//! The engine alone, over its own socket, beside what it is held against: tantivy, faiss, a bare store, an echo.

mod crash;
mod figures;
mod floors;
mod made;
mod points;
mod report;
mod run;
mod target;
mod texts;
mod vectors;

#[cfg(feature = "comparators")]
mod faiss;
#[cfg(feature = "comparators")]
mod tantivy;

pub(crate) use run::run;
