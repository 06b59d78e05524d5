//! Changes of the key of a server. The former key and the new key both sign the checkpoint that
//! states the change, so that a reader who trusts one of them can find the other.

use super::key::{KeyKind, PublicKey};

/// Start of the line of a checkpoint that states a change of the key.
const KEY_LINE: &str = "key ";
/// Number of the line of a checkpoint that states a change of the key, from 0.
const KEY_LINE_AT: usize = 4;

/// A change of the key: all later checkpoints are signed by the new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The key that signed until now.
    pub former: PublicKey,
    /// The key that signs from now on.
    pub new: PublicKey,
}

impl KeyChange {
    /// Returns the line of a checkpoint that states the change, with its end.
    pub fn line(&self) -> String {
        format!("{KEY_LINE}{} {}\n", self.former.text(), self.new.text())
    }

    /// Returns the change that the text of a checkpoint states; `None` if it states none.
    pub fn of_text(text: &str) -> Option<Self> {
        let keys = text.lines().nth(KEY_LINE_AT)?.strip_prefix(KEY_LINE)?;
        let (former, new) = keys.split_once(' ')?;
        let read = |text| PublicKey::parse(text, KeyKind::Log).ok();
        Some(Self { former: read(former)?, new: read(new)? })
    }

    /// Returns the change that a note states, if both keys signed the note. `verified` returns the
    /// text of a note if the key signed it, or says what is wrong.
    pub fn of_note(
        note: &str,
        verified: impl Fn(&str, &PublicKey) -> Result<String, String>,
    ) -> Option<Self> {
        let change = Self::of_text(note)?;
        let signed = |key| verified(note, key).is_ok();
        let both = signed(&change.former) && signed(&change.new);
        both.then_some(change)
    }
}

/// Returns the newest key that a trusted key vouches for: the key itself, or its last successor.
/// `rotations` are notes that state changes of the key, in order.
pub fn newest_key(
    trusted: &PublicKey,
    rotations: &[String],
    verified: impl Fn(&str, &PublicKey) -> Result<String, String>,
) -> PublicKey {
    let mut key = trusted.clone();
    for note in rotations {
        match KeyChange::of_note(note, &verified) {
            Some(change) if change.former == key => key = change.new,
            _ => {}
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> PublicKey {
        PublicKey { kind: KeyKind::Log, name: "vctx-1".into(), bytes: vec![byte; 32] }
    }

    /// Here a key has signed a note if the signature is made of the key's first byte.
    fn verified(note: &str, key: &PublicKey) -> Result<String, String> {
        let (text, signature) = key.split(note)?;
        match signature == [key.bytes[0]; 64] {
            true => Ok(text),
            false => Err("has a signature that does not hold".into()),
        }
    }

    fn rotation(former: u8, new: u8, signers: [u8; 2]) -> String {
        let change = KeyChange { former: key(former), new: key(new) };
        let [first, second] = [former, new].map(key);
        let lines =
            first.signature_line(&[signers[0]; 64]) + &second.signature_line(&[signers[1]; 64]);
        format!("vctx-1\n3\nroot\n2026-01-01T00:00:00.000Z\n{}\n{lines}", change.line())
    }

    #[test]
    fn a_key_vouches_for_its_successors_and_for_no_other_key() {
        let notes = [rotation(1, 2, [1, 2]), rotation(2, 3, [2, 3])];
        for first in 1..=3 {
            assert_eq!(newest_key(&key(first), &notes, verified), key(3));
        }
        assert_eq!(newest_key(&key(4), &notes, verified), key(4));
        // Another key signed the change, or the new key did not.
        for signers in [[4, 2], [1, 4]] {
            let notes = [rotation(1, 2, signers)];
            assert_eq!(newest_key(&key(1), &notes, verified), key(1));
        }
    }

    #[test]
    fn only_the_line_after_the_time_states_a_change() {
        let note = rotation(1, 2, [1, 2]);
        assert_eq!(KeyChange::of_text(&note).unwrap().new, key(2));
        assert_eq!(KeyChange::of_text(&note.replacen("root\n", "root\nmore\n", 1)), None);
        assert_eq!(KeyChange::of_text("vctx-1\n3\nroot\n2026-01-01T00:00:00.000Z\n"), None);
    }
}
