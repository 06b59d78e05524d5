//! The release of ArangoDB whose answers are given, and the part of a deployment that is played: what differs is asked here.

use std::fmt;
use std::str::FromStr;

/// A release between 3.12.4, the first with vector indexes, and 3.12.10. Each question names what the server's release notes
/// and its source tell apart; everything else is answered alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    patch: u8,
}

impl Release {
    /// What is answered if nobody says otherwise.
    pub const LATEST: Self = Self { patch: 10 };
    /// All of them, the oldest first.
    pub const ALL: [Self; 7] = [
        Self { patch: 4 },
        Self { patch: 5 },
        Self { patch: 6 },
        Self { patch: 7 },
        Self { patch: 8 },
        Self { patch: 9 },
        Self::LATEST,
    ];

    fn since(self, patch: u8) -> bool {
        self.patch >= patch
    }

    /// The start option that switches vector indexes on.
    pub fn vector_option(self) -> &'static str {
        if self.since(6) { "--vector-index" } else { "--experimental-vector-index" }
    }

    /// Whether there is the metric `innerProduct` with its function.
    pub fn inner_product(self) -> bool {
        self.since(6)
    }

    /// Whether a vector index may be sparse.
    pub fn sparse_vectors(self) -> bool {
        self.since(6)
    }

    /// Whether a document that has no vector can be changed under a sparse vector index (it could not before 3.12.9).
    pub fn sparse_vector_updates(self) -> bool {
        self.since(9)
    }

    /// Whether one `FILTER` may stand before a sort by nearness.
    pub fn vector_filter(self) -> bool {
        self.since(6)
    }

    /// Whether a vector index keeps `storedValues`; a filter is a rule of its own (`push-filter-into-enumerate-near`) since then.
    pub fn vector_stored_values(self) -> bool {
        self.since(7)
    }

    /// Whether `indexHint` and `forceIndexHint` are heard by a vector search.
    pub fn vector_hints(self) -> bool {
        self.since(7)
    }

    /// Whether a vector index may be there before its vectors, tells its `trainingState`, and waits for a training (1555).
    pub fn untrained_vectors(self) -> bool {
        self.since(9)
    }

    /// Whether an index that cannot be trained yet is told as a success.
    pub fn unusable_is_success(self) -> bool {
        self.since(10)
    }

    /// Whether `nLists` may be missing or an object that scales, and a factory may have the placeholder `{}`.
    pub fn scaling_lists(self) -> bool {
        self.since(10)
    }

    /// Whether `numberOfDocsPerCentroid` can be set; before it is 256.
    pub fn documents_per_list(self) -> bool {
        self.since(10)
    }

    /// Whether `withHidden` tells of the shards of a vector index.
    pub fn vector_shards(self) -> bool {
        self.since(10)
    }

    /// Whether `storedValues` of a vector index serve projections (`materialize-for-enumerate-near`).
    pub fn vector_projections(self) -> bool {
        self.since(10)
    }

    /// Whether there is `GET /_admin/options-public`.
    pub fn options_public(self) -> bool {
        self.since(8)
    }

    /// Whether there are access tokens (`/_api/token`).
    pub fn access_tokens(self) -> bool {
        self.since(5)
    }

    /// `consolidationIntervalMsec` of a view or inverted index that does not say.
    pub fn consolidation_interval_ms(self) -> i64 {
        if self.since(6) { 5000 } else { 1000 }
    }

    /// Which `consolidationPolicy` views and inverted indexes have.
    pub fn consolidation(self) -> Consolidation {
        match self.patch {
            7.. => Consolidation::Skew,
            6 => Consolidation::ManySegments,
            _ => Consolidation::Segments,
        }
    }
}

/// Generations of the consolidation policy `tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consolidation {
    /// Up to 3.12.5: `segmentsMin` 1, `segmentsMax` 10.
    Segments,
    /// 3.12.6: `segmentsMin` 50, `segmentsMax` 200.
    ManySegments,
    /// From 3.12.7: `maxSkewThreshold`, `minDeletionRatio`.
    Skew,
}

impl Default for Release {
    fn default() -> Self {
        Self::LATEST
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.12.{}", self.patch)
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|release| release.to_string() == text);
        known.ok_or_else(|| {
            format!("'{text}' is no release from {} to {}", Self::ALL[0], Self::LATEST)
        })
    }
}

/// The part of a deployment that is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A server that stands alone.
    #[default]
    Single,
    /// What a client of a cluster talks to. There is still one process and one copy of the data.
    Coordinator,
}

impl Role {
    /// Its name in `/_admin/status` and elsewhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "SINGLE",
            Self::Coordinator => "COORDINATOR",
        }
    }

    /// Whether it is the coordinator.
    pub fn is_coordinator(self) -> bool {
        self == Self::Coordinator
    }

    /// Seconds that a cursor lives unless its query says (30 on a single server, 600 on a coordinator).
    pub fn cursor_ttl_s(self) -> f64 {
        if self.is_coordinator() { 600.0 } else { 30.0 }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "single" => Ok(Self::Single),
            "coordinator" => Ok(Self::Coordinator),
            _ => Err(format!("'{text}' is neither single nor coordinator")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_what_its_notes_say() {
        // `x` from the release on that brought it.
        let table: [(&str, fn(Release) -> bool, &str); 14] = [
            ("inner product", Release::inner_product, "..xxxxx"),
            ("sparse", Release::sparse_vectors, "..xxxxx"),
            ("sparse updates", Release::sparse_vector_updates, ".....xx"),
            ("filter", Release::vector_filter, "..xxxxx"),
            ("stored values", Release::vector_stored_values, "...xxxx"),
            ("hints", Release::vector_hints, "...xxxx"),
            ("untrained", Release::untrained_vectors, ".....xx"),
            ("unusable is success", Release::unusable_is_success, "......x"),
            ("scaling", Release::scaling_lists, "......x"),
            ("docs per centroid", Release::documents_per_list, "......x"),
            ("shards", Release::vector_shards, "......x"),
            ("projections", Release::vector_projections, "......x"),
            ("options-public", Release::options_public, "....xxx"),
            ("tokens", Release::access_tokens, ".xxxxxx"),
        ];
        for (what, asked, expected) in table {
            let found: String = Release::ALL
                .iter()
                .map(|release| if asked(*release) { 'x' } else { '.' })
                .collect();
            assert_eq!(found, expected, "{what}");
        }
        let options: Vec<_> = Release::ALL.iter().map(|r| r.vector_option().len()).collect();
        assert_eq!(options, [27, 27, 14, 14, 14, 14, 14]);
    }

    #[test]
    fn names_are_read_back() {
        for release in Release::ALL {
            assert_eq!(release.to_string().parse(), Ok(release));
        }
        for wrong in ["3.12.3", "3.12.11", "3.12", "3.12.04", "4.0.0", ""] {
            assert!(wrong.parse::<Release>().is_err(), "{wrong}");
        }
        assert_eq!("coordinator".parse(), Ok(Role::Coordinator));
        assert!("dbserver".parse::<Role>().is_err());
    }
}
