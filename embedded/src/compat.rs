//! The release of ArangoDB that the engine emulates, and the server role (single server or
//! coordinator). Every difference between releases or roles is a method in this file.

use std::fmt;
use std::str::FromStr;

/// A release from 3.12.4, the first with vector indexes, to 3.12.10. Each method of `Release`
/// describes one difference between releases, according to ArangoDB's release notes and source. In
/// everything else the engine behaves the same for all releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    patch: u8,
}

impl Release {
    /// The default release.
    pub const LATEST: Self = Self { patch: 10 };
    /// All releases, the oldest first.
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

    /// The start option that enables vector indexes.
    pub fn vector_option(self) -> &'static str {
        if self.since(6) { "--vector-index" } else { "--experimental-vector-index" }
    }

    /// Whether the metric `innerProduct` and its function exist.
    pub fn inner_product(self) -> bool {
        self.since(6)
    }

    /// Whether a vector index may be sparse.
    pub fn sparse_vectors(self) -> bool {
        self.since(6)
    }

    /// Whether a document without a vector can be updated if its collection has a sparse vector
    /// index.
    pub fn sparse_vector_updates(self) -> bool {
        self.since(9)
    }

    /// Whether a query with a vector search may have one `FILTER` before the sort by nearness.
    pub fn vector_filter(self) -> bool {
        self.since(6)
    }

    /// Whether a vector index keeps `storedValues`. Releases that keep them also have the optimiser
    /// rule `push-filter-into-enumerate-near`.
    pub fn vector_stored_values(self) -> bool {
        self.since(7)
    }

    /// Whether a vector search uses `indexHint` and `forceIndexHint`.
    pub fn vector_hints(self) -> bool {
        self.since(7)
    }

    /// Whether a vector index can be created before there are vectors. Such an index shows its
    /// `trainingState`, and queries fail with error 1555 until the index is trained.
    pub fn untrained_vectors(self) -> bool {
        self.since(9)
    }

    /// Whether the creation of a vector index succeeds if there are too few vectors to train the
    /// index.
    pub fn unusable_is_success(self) -> bool {
        self.since(10)
    }

    /// Whether `nLists` may be missing or a scaling object, and whether a factory may contain the
    /// placeholder `{}`.
    pub fn scaling_lists(self) -> bool {
        self.since(10)
    }

    /// Whether `numberOfDocsPerCentroid` can be set; in other releases the number of documents per
    /// centroid is 256.
    pub fn documents_per_list(self) -> bool {
        self.since(10)
    }

    /// Whether `withHidden` shows the shards of a vector index.
    pub fn vector_shards(self) -> bool {
        self.since(10)
    }

    /// Whether projections can be read from `storedValues` of a vector index (optimiser rule
    /// `materialize-for-enumerate-near`).
    pub fn vector_projections(self) -> bool {
        self.since(10)
    }

    /// Whether `GET /_admin/options-public` exists.
    pub fn options_public(self) -> bool {
        self.since(8)
    }

    /// Whether access tokens (`/_api/token`) exist.
    pub fn access_tokens(self) -> bool {
        self.since(5)
    }

    /// Default `consolidationIntervalMsec` of views and inverted indexes.
    pub fn consolidation_interval_ms(self) -> i64 {
        if self.since(6) { 5000 } else { 1000 }
    }

    /// The `consolidationPolicy` of views and inverted indexes.
    pub fn consolidation(self) -> Consolidation {
        match self.patch {
            7.. => Consolidation::Skew,
            6 => Consolidation::ManySegments,
            _ => Consolidation::Segments,
        }
    }
}

/// The consolidation policy `tier` of a view, whose properties differ between releases.
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

/// The emulated role in a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A single server.
    #[default]
    Single,
    /// The coordinator of a cluster. The emulated cluster is still one process with one copy of the
    /// data.
    Coordinator,
}

impl Role {
    /// The role's name, for example in `/_admin/status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "SINGLE",
            Self::Coordinator => "COORDINATOR",
        }
    }

    /// Whether the role is the coordinator.
    pub fn is_coordinator(self) -> bool {
        self == Self::Coordinator
    }

    /// Default lifetime of a cursor in seconds (30 on a single server, 600 on a coordinator).
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
        // In this table, `x` marks the releases that have the feature of the row.
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
