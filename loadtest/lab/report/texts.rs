//! The texts that a page shows on request, in bounds.

use super::html::counted;

/// Maximum length of one text, in characters; a longer text is cut.
const CHARS_MAX: usize = 4_000;
/// Maximum length of all texts of a page, in bytes, so that every browser opens the page.
const BYTES_MAX: usize = 2 << 20;

/// A text with a line that says what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) about: String,
    pub(super) text: String,
}

/// Takes texts up to the bounds, and counts what is left out. Without the request for texts, takes
/// none.
#[derive(Debug)]
pub(super) struct Texts {
    wanted: bool,
    bytes: usize,
    cut: u64,
    left_out: u64,
}

impl Texts {
    pub(super) fn new(wanted: bool) -> Texts {
        Texts { wanted, bytes: BYTES_MAX, cut: 0, left_out: 0 }
    }

    /// Whether the page shows texts.
    pub(super) fn wanted(&self) -> bool {
        self.wanted
    }

    /// Returns a text for the page; `None` if the page shows no texts, has no room, or the text is
    /// empty.
    pub(super) fn take(&mut self, about: impl Into<String>, text: &str) -> Option<Text> {
        if !self.wanted || text.is_empty() {
            return None;
        }
        let mut kept: String = text.chars().take(CHARS_MAX).collect();
        if kept.len() > self.bytes {
            self.left_out += 1;
            return None;
        }
        self.bytes -= kept.len();
        if kept.len() < text.len() {
            kept.push('…');
            self.cut += 1;
        }
        Some(Text { about: about.into(), text: kept })
    }

    /// Says what the bounds left out; `None` if nothing.
    pub(super) fn told(&self) -> Option<String> {
        let cut = format!("Cut after {CHARS_MAX} characters: {}.", counted(self.cut, "text"));
        let out = format!(
            "Left out, since the page has room for {BYTES_MAX} bytes of texts: {}.",
            counted(self.left_out, "text")
        );
        match (self.cut, self.left_out) {
            (0, 0) => None,
            (_, 0) => Some(cut),
            (0, _) => Some(out),
            _ => Some(format!("{cut} {out}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_bounds_and_are_only_taken_on_request() {
        assert_eq!(Texts::new(false).take("a", "b"), None);
        let mut texts = Texts::new(true);
        assert_eq!(texts.take("a", ""), None);
        assert_eq!(texts.take("a", "b"), Some(Text { about: "a".into(), text: "b".into() }));
        assert_eq!(texts.told(), None);
        let long = "ä".repeat(CHARS_MAX + 1);
        let taken = texts.take("long", &long).expect("room");
        assert_eq!(taken.text.chars().count(), CHARS_MAX + 1);
        assert!(taken.text.ends_with("ä…"));
        assert!(texts.told().expect("cut").ends_with("characters: 1 text."));
        let all = (0..1_000).filter(|_| texts.take("long", &long).is_some()).count();
        assert_eq!(all, BYTES_MAX / (2 * CHARS_MAX) - 1);
        assert!(texts.told().expect("left out").contains("Left out"));
    }
}
