//! Parses the factory text of a vector index (a Faiss description of an index), and refuses
//! unsupported texts.

/// The kind of index that a factory text describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factory {
    /// `IVF<n>,Flat` or `IVF{},Flat`: unencoded vectors. The number of lists is `n` or, with `{}`,
    /// the number in `nLists`.
    Flat(Option<u32>),
    /// An unsupported index with inverted lists: an index that encodes vectors, or that finds the
    /// lists of a query in another way than `Flat`.
    Beyond,
    /// A text that does not describe an index with inverted lists. A training with such a text
    /// always fails.
    NoInvertedFile,
}

impl Factory {
    /// Parses a factory text.
    pub(crate) fn of(text: &str) -> Self {
        let Some(rest) = text.strip_prefix("IVF") else { return Self::NoInvertedFile };
        let (lists, code) = rest.split_once(',').unwrap_or((rest, ""));
        let lists = match lists {
            "{}" => Some(None),
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok().map(Some),
            _ => None,
        };
        match (lists, code) {
            (Some(lists), "Flat") => Self::Flat(lists),
            _ => Self::Beyond,
        }
    }

    /// Returns the reason why every training with a factory text and a number of lists fails, or
    /// `None` if these two do not prevent a training.
    pub(crate) fn refusal(text: &str, lists: u32) -> Option<String> {
        match Self::of(text) {
            Self::Flat(given) if given.is_none_or(|given| given == lists) => None,
            Self::Flat(Some(given)) => Some(format!(
                "the nLists parameter ({lists}) has to agree with the nlists of the factory '{text}' ({given})"
            )),
            _ => Some(format!("index definition not supported, expected an IVF index: '{text}'")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flat_lists_are_what_the_index_is() {
        let table = [
            ("IVF10,Flat", Factory::Flat(Some(10)), true),
            ("IVF{},Flat", Factory::Flat(None), true),
            ("IVF9,Flat", Factory::Flat(Some(9)), false),
            ("IVF10,SQ8", Factory::Beyond, false),
            ("IVF10_HNSW32,Flat", Factory::Beyond, false),
            ("IVF,Flat", Factory::Beyond, false),
            ("IVF10", Factory::Beyond, false),
            ("IVF{}_HNSW32,SQ8", Factory::Beyond, false),
            ("HNSW32,Flat", Factory::NoInvertedFile, false),
            ("Flat", Factory::NoInvertedFile, false),
            ("", Factory::NoInvertedFile, false),
        ];
        for (text, expected, accepted) in table {
            assert_eq!(Factory::of(text), expected, "{text}");
            assert_eq!(Factory::refusal(text, 10).is_none(), accepted, "{text}");
        }
    }
}
