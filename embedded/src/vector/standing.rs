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

/// Stage and number of the training (another one after each truncation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) stage: Stage,
    pub(crate) generation: u64,
}

impl Standing {
    /// Nine bytes.
    pub(crate) fn write(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[0] = match self.stage {
            Stage::Untrained => 0,
            Stage::Ingesting => 1,
            Stage::Ready => 2,
        };
        bytes[1..].copy_from_slice(&self.generation.to_be_bytes());
        bytes
    }

    /// The reverse of `write`; None for anything else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (stage, generation) = bytes.split_first()?;
        let stage = match stage {
            0 => Stage::Untrained,
            1 => Stage::Ingesting,
            2 => Stage::Ready,
            _ => return None,
        };
        Some(Self { stage, generation: u64::from_be_bytes(generation.try_into().ok()?) })
    }
}
