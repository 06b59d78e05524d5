//! Sets and drops notices depending on the occupancy of the window, and refuses a change that does
//! not fit the window.

use serde_json::json;

use super::Draft;
use crate::error::{Code, Error, Result};
use crate::memory::core::Core;
use crate::memory::event::EventType;
use crate::window::notices::{self, PRESSURE, SPOOL};
use crate::window::{Section, tokens};

impl Draft<'_> {
    /// Sets the pressure notice when occupancy reaches the warning mark. Drops pressure and spool
    /// notices when occupancy falls below the warning mark.
    pub(super) fn update_notices(&mut self, occupancy_before: u64) {
        let budget = self.after.token_budget;
        if self.fell() {
            notices::drop_kind(&mut self.after, SPOOL);
        }
        let bare = tokens(&self.after).occupancy - notices::cost(&self.after, PRESSURE);
        let was_under = occupancy_before < self.before.token_budget.warning;
        let stands = notices::stands(&self.after, PRESSURE);
        if bare < budget.warning {
            notices::drop_kind(&mut self.after, PRESSURE);
        } else if !stands || self.after.token_budget != self.before.token_budget {
            let notice = notices::pressure_notice(self.around.counter, &self.after);
            notices::set(&mut self.after, notice);
            if was_under && !stands {
                self.after.counters.warnings += 1;
                let details = json!({"occupancy": tokens(&self.after).occupancy, "threshold": budget.warning,
                    "context_window": self.after.context_window});
                self.event(EventType::Warning, details);
            }
        }
    }

    /// Returns whether this change spooled no result and lowered the occupancy below the warning
    /// mark. The notices do not count in this occupancy.
    fn fell(&self) -> bool {
        let bare = |core: &Core| {
            let now = tokens(core);
            now.without(&[Section::Notices])
        };
        !self.spooled
            && bare(&self.before) >= self.before.token_budget.warning
            && bare(&self.after) < self.after.token_budget.warning
    }

    /// Returns the tokens of those notices that are dropped if an eviction lowers the occupancy
    /// below the warning mark.
    pub(super) fn passing_notices(&self) -> u64 {
        let spool = if self.spooled { 0 } else { notices::cost(&self.after, SPOOL) };
        notices::cost(&self.after, PRESSURE) + spool
    }

    /// Drops notices if the window would otherwise exceed its size.
    pub(super) fn give_way(&mut self) {
        for kind in [PRESSURE, SPOOL] {
            if tokens(&self.after).occupancy > self.after.token_budget.max {
                notices::drop_kind(&mut self.after, kind);
            }
        }
    }

    /// Refuses a change that makes the texts of the blocks longer than allowed. Blocks that were
    /// longer before may stay or become shorter.
    pub(super) fn check_blocks_bytes(&self) -> Result<()> {
        let (bytes, most) = (self.after.blocks_bytes(), self.around.blocks_bytes_max);
        if bytes <= most || bytes <= self.before.blocks_bytes() {
            return Ok(());
        }
        let why = format!(
            "all blocks together would have {bytes} bytes, more than {most}: shorten or delete a block, or move text to the archive"
        );
        Err(Error::argument("content", why).with("bytes", bytes).with("bytes_max", most))
    }

    /// Refuses a change that does not fit the window.
    pub(super) fn refuse_overflow(&self) -> Result<()> {
        let occupancy = tokens(&self.after).occupancy;
        let max = self.after.token_budget.max;
        if occupancy <= max { Ok(()) } else { Err(overflow(occupancy, max)) }
    }
}

pub(super) fn overflow(occupancy: u64, max: u64) -> Error {
    let short = occupancy - max;
    Error::new(
        Code::TokenBudgetExceeded,
        format!("short of {short} tokens in a window of {max}: shorten the text or free a block"),
    )
    .with("required_headroom", short)
    .with("occupancy", occupancy)
    .with("max", max)
}
