//! Where a new agent goes, so that every server sends it to the same place.

use vctx_core::memory::receipt::sha256;

/// The place with the highest hash of its name and the key (rendezvous hashing, Thaler and Ravishankar 1996): where a place is added or
/// taken away, no other agent would go elsewhere.
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
