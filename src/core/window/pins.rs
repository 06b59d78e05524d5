//! Checks that pinned blocks take at most a quarter of the window.

use crate::error::{Code, Error, Result};
use crate::memory::core::Core;

/// Returns the maximum number of tokens that all pinned blocks together may take: 25 % of the
/// window, rounded down.
pub fn pinned_tokens_max(window: u64) -> u64 {
    window * 25 / 100
}

/// Refuses a core whose pinned blocks together take more than [`pinned_tokens_max`] tokens.
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
