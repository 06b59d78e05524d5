//! Access levels, and how a user's grants determine the level on a database or collection.

use std::collections::BTreeMap;

use crate::value::{Object, Value};

/// Wildcard name of all databases or all collections.
pub(in super::super) const ANY: &str = "*";
/// The database `_system`. On a database without a grant of its own, a user has at least the level
/// that the user has on `_system`.
const SYSTEM: &str = "_system";
/// The collection that no caller can read through the API.
const USERS_COLLECTION: &str = "_users";

/// Access levels, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Level {
    /// `none`
    None,
    /// `ro`
    Read,
    /// `rw`
    Write,
}

impl Level {
    /// Returns the level's name: `rw`, `ro` or `none`.
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "ro",
            Self::Write => "rw",
        }
    }

    /// Returns the level with the name `rw`, `ro` or `none`.
    pub(in super::super) fn of(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "ro" => Some(Self::Read),
            "rw" => Some(Self::Write),
            _ => None,
        }
    }
}

/// Grants within one database (or within `*`).
#[derive(Clone, Debug, Default)]
struct DatabaseGrants {
    level: Option<Level>,
    collections: BTreeMap<String, Level>,
}

/// All grants of one user.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Grants {
    databases: BTreeMap<String, DatabaseGrants>,
}

impl Grants {
    /// Returns grants of all rights, which `root` has.
    pub(super) fn everything() -> Self {
        let mut grants = Self::default();
        grants.set(ANY, None, Some(Level::Write));
        grants.set(ANY, Some(ANY), Some(Level::Write));
        grants
    }

    /// Sets or removes the grant of a database or of one of its collections.
    pub(super) fn set(&mut self, database: &str, collection: Option<&str>, level: Option<Level>) {
        let entry = self.databases.entry(database.to_owned()).or_default();
        match (collection, level) {
            (None, level) => entry.level = level,
            (Some(name), Some(level)) => {
                entry.collections.insert(name.to_owned(), level);
            }
            (Some(name), None) => {
                entry.collections.remove(name);
            }
        }
        if entry.level.is_none() && entry.collections.is_empty() {
            self.databases.remove(database);
        }
    }

    /// Returns the grant that was set for exactly this database or collection, if any.
    pub(in super::super) fn configured(
        &self,
        database: &str,
        collection: Option<&str>,
    ) -> Option<Level> {
        let grants = self.databases.get(database)?;
        match collection {
            None => grants.level,
            Some(name) => grants.collections.get(name).copied(),
        }
    }

    /// The level on a database: the database's own grant, otherwise the higher level of `*` and
    /// `_system`.
    pub(in super::super) fn database(&self, name: &str) -> Level {
        self.configured(name, None)
            .or_else(|| self.configured(ANY, None).max(self.configured(SYSTEM, None)))
            .unwrap_or(Level::None)
    }

    /// The level on a collection: the collection's own grant, otherwise the higher level of the
    /// wildcards `db/*` and `*/*`. For a collection whose name begins with `_`, the level is the
    /// level on the database; for `_users` it is `none`.
    pub(in super::super) fn collection(&self, database: &str, name: &str) -> Level {
        if name == USERS_COLLECTION {
            return Level::None;
        }
        if name.starts_with('_') {
            return self.database(database);
        }
        if self.database(database) == Level::None {
            return Level::None;
        }
        self.configured(database, Some(name))
            .or_else(|| self.configured(database, Some(ANY)).max(self.configured(ANY, Some(ANY))))
            .unwrap_or(Level::None)
    }

    /// Whether the grants allow reading all collections except `_users`, so that single collections
    /// need no check.
    pub(in super::super) fn read_everything(&self, database: &str) -> bool {
        let own = self.databases.get(database);
        let named = own.is_some_and(|own| own.collections.keys().any(|name| name != ANY));
        let any = self.configured(database, Some(ANY)).max(self.configured(ANY, Some(ANY)));
        !named && any >= Some(Level::Read) && self.database(database) >= Level::Read
    }

    /// Whether a grant names the database or one of its collections.
    pub(super) fn mentions(&self, database: &str) -> bool {
        self.databases.contains_key(database)
    }

    /// Removes the grants of a dropped database.
    pub(super) fn forget(&mut self, database: &str) {
        self.databases.remove(database);
    }

    /// Converts the grants to their stored form.
    pub(super) fn to_value(&self) -> Value {
        let mut all = Object::new();
        for (name, grants) in &self.databases {
            let mut collections = Object::new();
            for (name, level) in &grants.collections {
                collections.push_new(name.as_str(), level.name().into());
            }
            let mut one = Object::new();
            one.push_new("level", grants.level.map_or(Value::Null, |l| l.name().into()));
            one.push_new("collections", Value::object(collections));
            all.push_new(name.as_str(), Value::object(one));
        }
        Value::object(all)
    }

    /// Reads grants from their stored form; `None` for an unknown level.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let mut all = Self::default();
        for (database, grants) in value.as_object()?.iter() {
            if let Some(level) = grants.text_of("level") {
                all.set(database, None, Some(Level::of(level)?));
            }
            for (name, level) in grants.attribute("collections").as_object()?.iter() {
                all.set(database, Some(name), Some(Level::of(level.as_str()?)?));
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row has grants (`db`, `db/collection` or `*` with a level), a resource, and the
    /// expected level (ArangoDB's manual: managing users, levels and their resolution).
    #[test]
    fn the_nearest_grant_counts() {
        let table = [
            ("", "d", "none"),
            ("d=ro", "d", "ro"),
            ("*=rw d=none", "d", "none"),
            ("*=rw", "d", "rw"),
            ("_system=rw", "d", "rw"),
            ("_system=rw *=ro", "d", "rw"),
            ("_system=rw d=ro", "d", "ro"),
            ("d=rw", "d/c", "none"),
            ("d=ro d/*=rw", "d/c", "rw"),
            ("d=ro d/*=rw d/c=ro", "d/c", "ro"),
            ("d=ro d/*=rw d/c=none", "d/c", "none"),
            ("d=ro d/*=ro */*=rw", "d/c", "rw"),
            ("d=ro */*=rw", "d/c", "rw"),
            ("d=none d/c=rw", "d/c", "none"),
            ("d=ro d/*=rw", "d/_graphs", "ro"),
            ("*=rw */*=rw", "_system/_users", "none"),
        ];
        for (given, asked, answer) in table {
            let mut grants = Grants::default();
            for word in given.split_whitespace() {
                let (place, level) = word.split_once('=').expect("a grant");
                let (database, collection) =
                    place.split_once('/').map_or((place, None), |(d, c)| (d, Some(c)));
                grants.set(database, collection, Level::of(level));
            }
            let grants = Grants::from_value(&grants.to_value()).expect("stored form");
            let level = match asked.split_once('/') {
                Some((database, collection)) => grants.collection(database, collection),
                None => grants.database(asked),
            };
            assert_eq!(level.name(), answer, "{given} asked for {asked}");
        }
    }
}
