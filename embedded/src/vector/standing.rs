//! How far an index is: the small record that every reader and writer of it looks at first.

/// Stages of an index that outlive a restart; training leaves no trace before it is through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
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
    /// Thirteen bytes.
    pub(crate) fn write(self) -> [u8; 13] {
        let mut bytes = [0; 13];
        bytes[0] = match self.stage {
            Stage::Untrained => 0,
            Stage::Ingesting => 1,
            Stage::Ready => 2,
        };
        bytes[1..9].copy_from_slice(&self.generation.to_be_bytes());
        bytes[9..].copy_from_slice(&self.lists.to_be_bytes());
        bytes
    }

    /// The reverse of `write`, and of the nine bytes without a number of lists; None for anything else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (stage, rest) = bytes.split_first()?;
        let (generation, lists) = rest.split_first_chunk()?;
        let lists = match lists {
            [] => 0,
            lists => u32::from_be_bytes(lists.try_into().ok()?),
        };
        let stage = match stage {
            0 => Stage::Untrained,
            1 => Stage::Ingesting,
            2 => Stage::Ready,
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
    }
}
