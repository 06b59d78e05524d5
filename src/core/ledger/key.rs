//! Public keys of signed notes, and the signature lines in which notes name the keys
//! (`c2sp.org/signed-note`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::sha::Sha256;

/// Number of bytes of a key id.
const KEY_ID_BYTES: usize = 4;
/// Start of a signature line (`c2sp.org/signed-note`).
const DASH: &str = "\u{2014}";

/// What a key signs. The number stands for the algorithm in keys and key ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519 over the text of a note (`c2sp.org/signed-note`).
    Log = 1,
    /// Ed25519 over a time and the text of a note (`c2sp.org/tlog-cosignature`, version 1).
    Witness = 4,
}

/// A public key with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// What the key signs.
    pub kind: KeyKind,
    /// Name of the signer.
    pub name: String,
    /// The key's 32 bytes.
    pub bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads the text of a public key: `name+id+key`, with the id in hex, and the key in base64
    /// after the number of its kind. An error says what is wrong.
    pub fn parse(text: &str, kind: KeyKind) -> Result<Self, String> {
        let mut parts = text.trim().splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("is not `name+id+key`".into());
        };
        let key = STANDARD.decode(key).map_err(|_| "has a key that is not base64")?;
        let bytes = match key.split_first() {
            Some((&number, bytes)) if number == kind as u8 => bytes.to_vec(),
            _ => return Err(kind.refusal().into()),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("has a name that is empty or has spaces".into());
        }
        let key = Self { kind, name: name.to_owned(), bytes };
        match key.id_text() == id {
            true => Ok(key),
            false => Err("has an id that does not belong to its key".into()),
        }
    }

    /// Returns the text of the key, which [`Self::parse`] reads.
    pub fn text(&self) -> String {
        let key = STANDARD.encode([&[self.kind as u8], &self.bytes[..]].concat());
        format!("{}+{}+{key}", self.name, self.id_text())
    }

    /// Returns the id of the key: the first four bytes of
    /// `SHA-256(name ‖ 0x0a ‖ number of the kind ‖ public key)`.
    fn id(&self) -> [u8; KEY_ID_BYTES] {
        let mut hash = Sha256::new();
        hash.update(self.name.as_bytes());
        hash.update([b'\n', self.kind as u8]);
        hash.update(&self.bytes);
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&hash.finalize()[..KEY_ID_BYTES]);
        id
    }

    /// Returns the id of the key in hex.
    pub fn id_text(&self) -> String {
        format!("{:08x}", u32::from_be_bytes(self.id()))
    }

    /// Returns the signature line of a note.
    pub fn signature_line(&self, signature: &[u8]) -> String {
        let signature = STANDARD.encode([&self.id()[..], signature].concat());
        format!("{DASH} {} {signature}\n", self.name)
    }

    /// Splits a signed note into its text and this key's signature.
    pub fn split(&self, note: &str) -> Result<(String, Vec<u8>), String> {
        let (text, signatures) = note.split_once("\n\n").ok_or("has no signature")?;
        let id = self.id();
        for line in signatures.lines() {
            let mut words = line.split(' ');
            if (words.next(), words.next()) != (Some(DASH), Some(&self.name)) {
                continue;
            }
            let bytes = words.next().and_then(|word| STANDARD.decode(word).ok());
            let bytes = bytes.ok_or("has a signature that is not base64")?;
            if let Some(signature) = bytes.strip_prefix(&id[..]) {
                return Ok((format!("{text}\n"), signature.to_vec()));
            }
        }
        Err(format!("has no signature of {}", self.name))
    }
}

impl KeyKind {
    fn refusal(self) -> &'static str {
        match self {
            Self::Log => "is not a key of Ed25519 for a log",
            Self::Witness => "is not a key of Ed25519 for a witness",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_is_read_as_it_is_written() {
        // The key of the example in the documentation of Go's package `sumdb/note`.
        let text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        let read = PublicKey::parse(text, KeyKind::Log).unwrap();
        assert_eq!((read.name.as_str(), read.bytes.len()), ("PeterNeumann", 32));
        assert_eq!(read.text(), text);
        assert!(PublicKey::parse(text, KeyKind::Witness).unwrap_err().contains("witness"));
        let own = PublicKey { kind: KeyKind::Witness, name: "vctx-1".into(), bytes: vec![7; 32] };
        assert_eq!(PublicKey::parse(&own.text(), KeyKind::Witness), Ok(own.clone()));
        let other = own.text().replace("vctx-1", "vctx-2");
        assert!(PublicKey::parse(&other, KeyKind::Witness).unwrap_err().contains("id"));
    }
}
