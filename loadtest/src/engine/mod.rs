//! Measures the engine without vctx, and compares it with tantivy, faiss, a bare store (fjall) and
//! an echo.

mod crash;
mod figures;
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
