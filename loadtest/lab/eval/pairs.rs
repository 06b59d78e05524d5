//! Pairs of a nested key-value store and chains of keys, from a file or generated from a seed.

use vctx_core::seeded::Seeded;

/// A key-value store that contains chains of keys; no two chains share a pair.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Stored keys and values. The values already contain the chains.
    pub(super) stored: Vec<(String, String)>,
    /// Chains of keys with 0, 1, … nestings.
    pub(super) chains: Vec<Chain>,
}

/// A chain of pairs in which each value is the key of the next pair, up to the final value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) start: String,
    pub(super) end: String,
    /// Number of keys to look up, which is the number of nestings plus one.
    pub(super) lookups: usize,
    /// Pairs whose value the chain changes: index, key, new value.
    pub(super) changed: Vec<(usize, String, String)>,
}

impl Chain {
    /// Builds the chain of keys through the pairs at the given indexes, in which each value except
    /// the last is the key of the next pair. Returns `None` if no index is given, or if an index
    /// has no pair.
    pub(super) fn of(pairs: &[(String, String)], places: &[usize]) -> Option<Chain> {
        let all: Vec<&(String, String)> =
            places.iter().map(|at| pairs.get(*at)).collect::<Option<_>>()?;
        let (first, last) = (all.first()?, all.last()?);
        let changed = places
            .windows(2)
            .zip(all.windows(2))
            .map(|(at, pair)| (at[0], pair[0].0.clone(), pair[1].0.clone()));
        Some(Chain {
            start: first.0.clone(),
            end: last.1.clone(),
            lookups: places.len(),
            changed: changed.collect(),
        })
    }
}

impl Pairs {
    /// Generates a store of `size` pairs of random UUIDs with one chain of pairs for each number of
    /// nestings up to `nestings_max`; `size` must be large enough that no two chains share a pair.
    pub(super) fn generated(seed: u64, size: usize, nestings_max: usize) -> Pairs {
        let mut row = Seeded::new(seed);
        let mut stored: Vec<(String, String)> =
            (0..size).map(|_| (uuid(&mut row), uuid(&mut row))).collect();
        let mut places: Vec<usize> = (0..size).collect();
        for at in (1..size).rev() {
            places.swap(at, row.below(at + 1));
        }
        let mut free = places.into_iter();
        let mut chains = Vec::new();
        for nestings in 0..=nestings_max {
            let own: Vec<usize> = free.by_ref().take(nestings + 1).collect();
            if own.len() == nestings + 1
                && let Some(chain) = Chain::of(&stored, &own)
            {
                chains.push(chain);
            }
        }
        for (at, _, value) in chains.iter().flat_map(|chain| &chain.changed) {
            stored[*at].1.clone_from(value);
        }
        Pairs { stored, chains }
    }
}

/// Returns a random UUID (version 4).
fn uuid(row: &mut Seeded) -> String {
    let (high, low) = (row.next_u64(), row.next_u64());
    let high = (high & !0xF000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

/// Returns the text of a pair in the archive, in the words of the MemGPT paper's experiment.
pub(super) fn text(key: &str, value: &str) -> String {
    format!("Key-value pair: key = {key}, value = {value}")
}

/// Returns the value of a key if the line contains the key's pair.
pub(super) fn value_of(line: &str, key: &str) -> Option<String> {
    let rest = line.split_once(&format!("key = {key}, value = "))?.1;
    Some(rest.split_whitespace().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_gives_each_pair_the_key_of_the_next() {
        let pairs: Vec<(String, String)> =
            (0..4).map(|n| (format!("k{n}"), format!("v{n}"))).collect();
        let chain = Chain::of(&pairs, &[2, 0, 3]).unwrap();
        assert_eq!((chain.start.as_str(), chain.end.as_str(), chain.lookups), ("k2", "v3", 3));
        let changed =
            [(2, "k2".to_owned(), "k0".to_owned()), (0, "k0".to_owned(), "k3".to_owned())];
        assert_eq!(chain.changed, changed);
        assert_eq!(Chain::of(&pairs, &[9]), None);
        assert_eq!(Chain::of(&pairs, &[]), None);
    }

    #[test]
    fn generated_chains_lead_from_their_start_to_their_end() {
        let made = Pairs::generated(5, 140, 6);
        assert_eq!(made.stored.len(), 140);
        assert_eq!(
            made.chains.iter().map(|chain| chain.lookups).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7]
        );
        for chain in &made.chains {
            let mut current = chain.start.clone();
            for _ in 0..chain.lookups {
                current = made.stored.iter().find(|(key, _)| *key == current).unwrap().1.clone();
            }
            assert_eq!(current, chain.end);
            assert!(made.stored.iter().all(|(key, _)| *key != current), "the end is not a key");
        }
        assert_eq!(made.stored, Pairs::generated(5, 140, 6).stored);
        assert_ne!(made.stored, Pairs::generated(6, 140, 6).stored);
        assert_eq!(made.stored[0].0.len(), 36);
        assert_eq!(made.stored[0].0.as_bytes()[14], b'4');
    }

    #[test]
    fn only_the_line_of_the_key_itself_has_its_value() {
        let line = text("a-1", "b-2");
        assert_eq!(value_of(&line, "a-1").as_deref(), Some("b-2"));
        assert_eq!(value_of(&line, "b-2"), None);
    }
}
