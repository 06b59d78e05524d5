//! What must hold before the server serves; the same things the guards check from outside, in the same words.

pub mod sentences;
