//! The tokens of an encoding with their ranks, and how many of them a piece of text has.
//!
//! A file such as `o200k_base.tokens` has each token in the order of its rank: its length in one
//! byte, and its bytes. The tokens are those that OpenAI publishes for tiktoken; a test compares
//! them. A table of hashes over the file takes a tenth of the memory of a map of tokens, and is
//! made in a tenth of the time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xxhash_rust::xxh3::xxh3_64;

/// Bits of a slot that hold a token's rank plus 1; the other bits hold bits of its hash.
const RANK_BITS: u32 = 18;
const RANK_MASK: u32 = (1 << RANK_BITS) - 1;
/// Fewest slots for each token. A search then ends after two slots, as a rule.
const SLOTS: usize = 2;
/// Length of a piece in bytes up to which pairs are compared one by one; the time grows with the
/// square of the length.
const SHORT_BYTES_MAX: usize = 96;
/// Rank of a pair that is no token.
const NO_RANK: u32 = u32::MAX;

/// The tokens of an encoding.
#[derive(Debug)]
pub(super) struct Vocabulary {
    file: &'static [u8],
    /// For each rank, the place of the token's bytes in the file. The length is in front of it.
    places: Vec<u32>,
    /// The ranks by the hash of the token; 0 for an empty slot. The length is a power of two.
    slots: Vec<u32>,
}

impl Vocabulary {
    /// Reads the tokens of a file.
    pub(super) fn read(file: &'static [u8]) -> Self {
        let mut places = Vec::new();
        let mut at = 0;
        while let Some(length) = file.get(at) {
            at += 1;
            places.push(u32::try_from(at).unwrap_or(u32::MAX));
            at += usize::from(*length);
        }
        let slots = vec![0; (SLOTS * places.len()).next_power_of_two()];
        let mut vocabulary = Self { file, places, slots };
        for rank in 0..vocabulary.places.len() {
            let hash = xxh3_64(vocabulary.token(rank));
            let mut slot = vocabulary.first_slot(hash);
            while vocabulary.slots[slot] != 0 {
                slot = vocabulary.slot_after(slot);
            }
            let number = u32::try_from(rank + 1).unwrap_or(RANK_MASK) & RANK_MASK;
            vocabulary.slots[slot] = mark(hash) | number;
        }
        vocabulary
    }

    /// Returns the number of tokens of a piece of text that no token reaches out of.
    pub(super) fn count(&self, piece: &[u8]) -> u64 {
        match piece.len() {
            0 => 0,
            1 => 1,
            _ if self.rank(piece) != NO_RANK => 1,
            length if length <= SHORT_BYTES_MAX => self.count_short(piece),
            _ => self.count_long(piece),
        }
    }

    fn token(&self, rank: usize) -> &'static [u8] {
        let place = self.places[rank] as usize;
        let length = usize::from(self.file[place - 1]);
        &self.file[place..(place + length).min(self.file.len())]
    }

    fn first_slot(&self, hash: u64) -> usize {
        // The upper bits are the mark.
        (hash as usize) & (self.slots.len() - 1)
    }

    fn slot_after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// Returns the rank of a token; [`NO_RANK`] if the bytes are no token.
    fn rank(&self, bytes: &[u8]) -> u32 {
        let hash = xxh3_64(bytes);
        let mark = mark(hash);
        let mut slot = self.first_slot(hash);
        loop {
            let found = self.slots[slot];
            if found == 0 {
                return NO_RANK;
            }
            let rank = (found & RANK_MASK).saturating_sub(1);
            if found & !RANK_MASK == mark && self.token(rank as usize) == bytes {
                return rank;
            }
            slot = self.slot_after(slot);
        }
    }

    /// Joins the neighbours whose token has the smallest rank, until no two neighbours are a token.
    fn count_short(&self, piece: &[u8]) -> u64 {
        // The begin of each part, with the rank of the part and the next one together.
        let mut parts: Vec<(usize, u32)> = (0..=piece.len()).map(|at| (at, NO_RANK)).collect();
        let pair = |parts: &[(usize, u32)], at: usize| match parts.get(at + 2) {
            Some((end, _)) => self.rank(&piece[parts[at].0..*end]),
            None => NO_RANK,
        };
        for at in 0..parts.len() {
            parts[at].1 = pair(&parts, at);
        }
        loop {
            let ranks = parts.iter().map(|(_, rank)| *rank).enumerate();
            let Some((at, rank)) = ranks.min_by_key(|(_, rank)| *rank) else { break };
            if rank == NO_RANK {
                break;
            }
            parts.remove(at + 1);
            parts[at].1 = pair(&parts, at);
            if let Some(before) = at.checked_sub(1) {
                parts[before].1 = pair(&parts, before);
            }
        }
        parts.len() as u64 - 1
    }

    /// Does the same as [`Self::count_short`] in a time that grows little more than the length.
    fn count_long(&self, piece: &[u8]) -> u64 {
        let length = piece.len();
        // For each byte at which a part begins, the ends of this part and of the part before it.
        let mut ends: Vec<usize> = (1..=length).collect();
        let mut before: Vec<usize> = (0..length).map(|at| at.saturating_sub(1)).collect();
        let mut joins: BinaryHeap<Reverse<(u32, usize, usize)>> = BinaryHeap::new();
        let offer = |joins: &mut BinaryHeap<_>, start: usize, end: usize| {
            let rank = self.rank(&piece[start..end]);
            if rank != NO_RANK {
                joins.push(Reverse((rank, start, end)));
            }
        };
        for start in 0..length - 1 {
            offer(&mut joins, start, start + 2);
        }
        let mut parts = length;
        while let Some(Reverse((_, start, end))) = joins.pop() {
            let middle = ends[start];
            // One of the two parts may have been joined with another one since.
            if middle == 0 || middle >= length || ends[middle] != end {
                continue;
            }
            ends[start] = end;
            ends[middle] = 0;
            parts -= 1;
            if end < length {
                before[end] = start;
                offer(&mut joins, start, ends[end]);
            }
            if start > 0 {
                offer(&mut joins, before[start], end);
            }
        }
        parts as u64
    }
}

/// Returns the bits of a hash that a slot holds; most other tokens have other bits.
fn mark(hash: u64) -> u32 {
    ((hash >> 32) as u32) & !RANK_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All single letters of `abc`, and longer tokens.
    const FILE: &[u8] = b"\x01a\x01b\x01c\x02ab\x02bc\x04abab\x03abc";

    #[test]
    fn a_token_has_the_rank_of_its_place() {
        let vocabulary = Vocabulary::read(FILE);
        let all = ["a", "b", "c", "ab", "bc", "abab", "abc"];
        let ranks: Vec<u32> = all.iter().map(|token| vocabulary.rank(token.as_bytes())).collect();
        assert_eq!(ranks, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(vocabulary.rank(b"ba"), NO_RANK);
    }

    #[test]
    fn long_and_short_pieces_are_joined_in_the_same_way() {
        let vocabulary = Vocabulary::read(FILE);
        for (piece, tokens) in
            [("ab", 1), ("abcab", 2), ("cabcbab", 4), ("ababab", 2), ("bbcc", 3), ("ccc", 3)]
        {
            assert_eq!(vocabulary.count_short(piece.as_bytes()), tokens, "{piece}");
            assert_eq!(vocabulary.count_long(piece.as_bytes()), tokens, "{piece}");
        }
        assert_eq!(vocabulary.count(b""), 0);
        assert_eq!(vocabulary.count(b"abc"), 1);
    }
}
