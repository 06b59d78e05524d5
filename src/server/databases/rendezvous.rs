//! Chooses the database for a new agent, so that all servers make the same choice.

use vctx_core::memory::receipt::sha256;

/// Returns the database for which the hash of the database's name and the agent's key is highest
/// (rendezvous hashing, Thaler and Ravishankar 1996). If a database is added or removed, the result
/// changes only for those keys for which this database is chosen.
pub(super) fn chosen<'a>(places: impl Iterator<Item = &'a str>, key: &str) -> Option<&'a str> {
    places.max_by_key(|place| sha256(&format!("{place}\0{key}")))
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn agents_spread_and_stay_when_a_place_is_added() {
        let two = ["home", "east"];
        let three = ["home", "east", "west"];
        let (mut counts, mut moved) = ([0_u32; 3], 0);
        for n in 0..3_000 {
            let key = format!("agent-{n}");
            let of_three = chosen(three.into_iter(), &key).unwrap();
            counts[three.iter().position(|place| *place == of_three).unwrap()] += 1;
            if of_three != "west" {
                moved += u32::from(chosen(two.into_iter(), &key) != Some(of_three));
            }
        }
        assert!(counts.iter().all(|count| (900..=1_100).contains(count)), "{counts:?}");
        assert_eq!(moved, 0);
        assert_eq!(chosen([].into_iter(), "ada"), None);
    }
}
