//! The state of a vector index. The state is stored in a few bytes, which every read and write of
//! the index checks first.

/// The stored stage of an index. A running training is not a separate stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A background job is adding vectors to list 0: the vectors of documents that are older than
    /// the index. The job works in the order of local ids and has reached the given id. In this
    /// stage, the field `generation` contains the time at which the index was created. The job adds
    /// only documents older than this time, because a write of a newer document stores the vector
    /// itself.
    Filling(u64),
    /// The index is not trained; all vectors are in list 0.
    #[default]
    Untrained,
    /// The index is trained. New vectors are stored in the trained lists, and older vectors are
    /// being moved there from list 0.
    Ingesting,
    /// The index is ready for queries; list 0 is empty.
    Ready,
}

/// The index's stage, the number of its training, and the training's number of lists. A truncation
/// also changes the number of the training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) stage: Stage,
    pub(crate) generation: u64,
    /// Number of lists of the training, or 0 before the training. Old stored states of trained
    /// indexes also contain 0; for such a state, the number of lists in the index's definition
    /// applies.
    pub(crate) lists: u32,
}

impl Standing {
    /// Whether the background job that adds existing documents to the index will still add this
    /// document.
    pub(crate) fn has_to_come_to(self, local: u64) -> bool {
        match self.stage {
            Stage::Filling(behind) => local > behind && local < self.generation,
            Stage::Untrained | Stage::Ingesting | Stage::Ready => false,
        }
    }

    /// Encodes the state as thirteen bytes, plus eight bytes while existing documents are being
    /// added.
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

    /// Decodes bytes that `write` made, or an old stored state of nine bytes without the number of
    /// lists. Returns `None` for any other bytes.
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
