//! Memory that several bodies or lines share: each takes room as it grows, and frees it at its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unit in which room is counted, in bytes.
const UNIT_BYTES: u64 = 1_024;

/// A number of bytes that several holders share.
#[derive(Debug)]
pub struct SharedRoom {
    units: Arc<Semaphore>,
    bytes_max: u64,
}

/// The room of one holder; dropping the value frees it.
#[derive(Debug, Default)]
pub struct Room {
    taken: Vec<OwnedSemaphorePermit>,
}

impl SharedRoom {
    /// Makes room for `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { units: Arc::new(Semaphore::new(bytes_max.div_ceil(UNIT_BYTES) as usize)), bytes_max }
    }

    /// Enlarges a holder's room to the given number of bytes, at most to the shared number. Returns
    /// `false` if there is no room.
    pub fn try_grow(&self, room: &mut Room, bytes: u64) -> bool {
        let missing = self.missing(room, bytes);
        let taken = missing == 0
            || Arc::clone(&self.units)
                .try_acquire_many_owned(missing)
                .map(|permit| room.taken.push(permit))
                .is_ok();
        room.join();
        taken
    }

    /// Enlarges a holder's room like `try_grow`, but waits until other holders free their room, for
    /// at most the given time.
    pub async fn grow(&self, room: &mut Room, bytes: u64, longest: Duration) -> bool {
        let missing = self.missing(room, bytes);
        if missing == 0 {
            return true;
        }
        let permit = Arc::clone(&self.units).acquire_many_owned(missing);
        let Ok(Ok(permit)) = tokio::time::timeout(longest, permit).await else { return false };
        room.taken.push(permit);
        room.join();
        true
    }

    fn missing(&self, room: &Room, bytes: u64) -> u32 {
        let taken: usize = room.taken.iter().map(OwnedSemaphorePermit::num_permits).sum();
        let units = bytes.min(self.bytes_max).div_ceil(UNIT_BYTES).saturating_sub(taken as u64);
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

impl Room {
    /// Adds the room of another holder to this room.
    pub fn take(&mut self, other: Room) {
        self.taken.extend(other.taken);
        self.join();
    }

    /// Joins the permits to one, so that a room that grew in many steps has one permit.
    fn join(&mut self) {
        while self.taken.len() > 1 {
            let last = self.taken.pop().expect("two permits");
            self.taken[0].merge(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn holders_share_the_room_and_free_it() {
        let shared = SharedRoom::new(10 * UNIT_BYTES);
        let (mut one, mut two) = (Room::default(), Room::default());
        assert!(shared.try_grow(&mut one, 4 * UNIT_BYTES));
        assert!(shared.try_grow(&mut one, 6 * UNIT_BYTES));
        assert!(shared.grow(&mut one, UNIT_BYTES, NOW).await, "it already has this room");
        assert!(!shared.try_grow(&mut two, 5 * UNIT_BYTES));
        assert!(!shared.grow(&mut two, 5 * UNIT_BYTES, NOW).await);
        assert!(shared.grow(&mut two, 4 * UNIT_BYTES, NOW).await);
        drop(one);
        assert!(shared.grow(&mut two, u64::MAX, NOW).await, "a holder may have all room");
        let mut three = Room::default();
        assert!(!shared.try_grow(&mut three, 1));
        three.take(two);
        drop(three);
        assert_eq!(shared.units.available_permits(), 10);
    }
}
