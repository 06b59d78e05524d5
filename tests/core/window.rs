//! Tests of the context window: evicted messages and token counts.

mod budget;
mod evict;
mod reader;
mod strict;
