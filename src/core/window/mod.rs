//! The window: the list of sections, the cost of each section, and the messages of the prompt.

mod assemble;
mod budget;
mod clock;
mod context;
mod evict;
pub(crate) mod notices;
mod pins;
mod queue;
mod section;
mod slots;
mod strict;
mod summary;
mod system;
mod tools;
mod working;

pub use assemble::{Window, assemble};
pub use budget::{
    OLD_SUMMARY_PERCENT, Pressure, Tokens, budget_for, escape_old, narrow_window, pressure,
    recount, summary_tokens_max, summary_tokens_min, tokens,
};
pub use clock::opening_tokens;
pub use context::{context_cost, shown_context};
pub use evict::{Bounds, GrowingReserve, Plan, QueueItem, allowed_cuts, plan};
pub use pins::{check_pins, pinned_tokens_max};
pub use queue::open_call;
pub(crate) use section::Past;
pub use section::{Gone, Spec};
pub use slots::context_tokens_max;
pub use summary::summary_cost;
pub use working::count_block;

// The list has the sections in the order of the window. To add a section whose text is already in
// the core, write one file, a `mod` line for the file, and one item of this list. The budget, the
// gauges, the window's manifest, the pictures of the window, the stored core versions, and the
// replay of prompts then include the section. CONTRIBUTING.md describes the remaining steps.
section::sections! {
    System: system,
    Tools: tools,
    Working: working,
    Summary: summary,
    Queue: queue,
    Context: context,
    Notices: notices,
    Clock: clock,
}
