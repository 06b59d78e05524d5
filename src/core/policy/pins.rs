//! Pinned blocks may take a quarter of the window, no more.

use crate::error::{Code, Error, Result};
use crate::memory::core::Core;

/// Most tokens that pinned blocks may take: 25 of 100, rounded down.
pub fn pinned_tokens_max(window: u64) -> u64 {
    window * 25 / 100
}

/// Refuses a core whose pins take too much.
pub fn check_pins(core: &Core) -> Result<()> {
    let pinned: u64 =
        core.working_blocks.iter().filter(|b| b.pinned).map(|b| b.token_estimate).sum();
    let allowed = pinned_tokens_max(core.context_window);
    if pinned <= allowed {
        return Ok(());
    }
    Err(Error::new(
        Code::PinLimitExceeded,
        format!("pinned blocks would take {pinned} tokens of {allowed}: shorten one or unpin one"),
    )
    .with("pinned_tokens", pinned)
    .with("pinned_tokens_max", allowed)
    .with("required_headroom", pinned - allowed))
}
