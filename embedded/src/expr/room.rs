//! Counts the memory of all queries and answers of an engine together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Code, Error, Result};

/// Number of bytes of each share that are not counted, so that small queries and answers also work
/// when large ones use all memory. It is also the step in which a share grows.
const SHARE_STEP_BYTES: u64 = 1 << 20;

/// The memory that queries and answers of an engine may use together.
#[derive(Debug)]
pub struct Room {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Room {
    /// Returns an empty room of the given size in bytes.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), bytes_max })
    }
}

/// The part of a room that one query or one answer uses. Dropping the value frees the part.
#[derive(Debug)]
pub struct Share {
    room: Arc<Room>,
    counted: u64,
}

impl Share {
    /// Returns a share without bytes.
    pub fn of(room: &Arc<Room>) -> Self {
        Self { room: Arc::clone(room), counted: 0 }
    }

    /// Makes the share large enough for the given bytes; returns error 503/21003 if the room is
    /// full. A share does not become smaller.
    pub fn grow_to(&mut self, bytes: u64) -> Result<()> {
        let wanted = bytes.saturating_sub(SHARE_STEP_BYTES).next_multiple_of(SHARE_STEP_BYTES);
        let Some(more) = wanted.checked_sub(self.counted).filter(|more| *more > 0) else {
            return Ok(());
        };
        let before = self.room.bytes.fetch_add(more, Ordering::Relaxed);
        self.counted = wanted;
        if before + more > self.room.bytes_max {
            let text = "all queries together would use more memory than allowed";
            return Err(Error::new(Code::QueueFull, text));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_room_refuses_large_shares_and_accepts_small_ones() {
        let room = Room::new(10 * SHARE_STEP_BYTES);
        let mut large = Share::of(&room);
        large.grow_to(11 * SHARE_STEP_BYTES).expect("the first step is free");
        let mut second = Share::of(&room);
        second.grow_to(SHARE_STEP_BYTES).expect("a small share");
        let error = second.grow_to(SHARE_STEP_BYTES + 1).expect_err("the room is full");
        assert_eq!((error.status(), error.code.num()), (503, 21003));
        drop(second);
        drop(large);
        assert_eq!(room.bytes.load(Ordering::Relaxed), 0);
    }
}
