//! How far an index is: the small record that every reader and writer of it looks at first.

/// Stages of an index that outlive a restart; training leaves no trace before it is through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Vectors of documents that were there before the index are on their way into list 0, in the order of their local
    /// numbers; those up to this one are there. The generation is the moment the index was made: younger documents bring their
    /// vectors themselves.
    Filling(u64),
    /// There are no cells; all vectors lie in list 0.
    #[default]
    Untrained,
    /// There are cells; new vectors go into them, older ones are on their way out of list 0.
    Ingesting,
    /// List 0 is empty and stays so.
    Ready,
}

/// Stage, number of the training (another one after each truncation) and number of its lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) stage: Stage,
    pub(crate) generation: u64,
    /// Lists of the training; 0 as long as there is none, and in records that do not say: then the definition's number.
    pub(crate) lists: u32,
}

impl Standing {
    /// Whether the filling of an index has yet to come to a document.
    pub(crate) fn has_to_come_to(self, local: u64) -> bool {
        match self.stage {
            Stage::Filling(behind) => local > behind && local < self.generation,
            Stage::Untrained | Stage::Ingesting | Stage::Ready => false,
        }
    }

    /// Thirteen bytes, and eight more while it is filled.
    pub(crate) fn write(self) -> Vec<u8> {
        let (stage, behind) = match self.stage {
            Stage::Untrained => (0, None),
            Stage::Ingesting => (1, None),
            Stage::Ready => (2, None),
            Stage::Filling(behind) => (3, Some(behind)),
        };
        let mut bytes = vec![stage];
        bytes.extend(self.generation.to_be_bytes());
        bytes.extend(self.lists.to_be_bytes());
        bytes.extend(behind.into_iter().flat_map(u64::to_be_bytes));
        bytes
    }

    /// The reverse of `write`, and of the nine bytes without a number of lists; None for anything else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (stage, rest) = bytes.split_first()?;
        let (generation, lists) = rest.split_first_chunk()?;
        let (lists, filling) = match (stage, lists.split_last_chunk()) {
            (3, Some((lists, behind))) => (lists, Some(u64::from_be_bytes(*behind))),
            _ => (lists, None),
        };
        let lists = match lists {
            [] => 0,
            lists => u32::from_be_bytes(lists.try_into().ok()?),
        };
        let stage = match (stage, filling) {
            (0, None) => Stage::Untrained,
            (1, None) => Stage::Ingesting,
            (2, None) => Stage::Ready,
            (3, Some(behind)) => Stage::Filling(behind),
            _ => return None,
        };
        Some(Self { stage, generation: u64::from_be_bytes(*generation), lists })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_both_lengths_are_read() {
        let standing = Standing { stage: Stage::Ready, generation: 7, lists: 300 };
        let bytes = standing.write();
        assert_eq!(Standing::read(&bytes), Some(standing));
        assert_eq!(Standing::read(&bytes[..9]), Some(Standing { lists: 0, ..standing }));
        for length in [0, 1, 8, 10, 12] {
            assert_eq!(Standing::read(&bytes[..length]), None, "{length}");
        }
        let filling = Standing { stage: Stage::Filling(u64::MAX - 1), generation: 9, lists: 0 };
        let bytes = filling.write();
        assert_eq!(Standing::read(&bytes), Some(filling));
        for length in [1, 9, 13, 16, 18, 20] {
            assert_eq!(Standing::read(&bytes[..length]), None, "{length}");
        }
    }
}
