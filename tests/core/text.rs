//! Tests of text functions: summaries, lexical vectors and token counts.

mod drift;
mod lexical;
mod local;
mod tiktoken;
