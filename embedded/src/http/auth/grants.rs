//! Access levels and how the grants of a user resolve to one.

use std::collections::BTreeMap;

use crate::value::{Object, Value};

/// Stands for every database or every collection.
pub(in super::super) const ANY: &str = "*";
/// The database whose level is the floor for all others.
const SYSTEM: &str = "_system";
/// Nobody reads it through the API.
const USERS_COLLECTION: &str = "_users";

/// What a grant allows, weakest first.
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
    /// `rw`, `ro` or `none`.
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "ro",
            Self::Write => "rw",
        }
    }

    /// The level of that name.
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
    /// Everything, as `root` has it.
    pub(super) fn everything() -> Self {
        let mut grants = Self::default();
        grants.set(ANY, None, Some(Level::Write));
        grants.set(ANY, Some(ANY), Some(Level::Write));
        grants
    }

    /// Sets or takes away the grant of a database or of one of its collections.
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

    /// The grant as it was given, without resolution.
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

    /// The level on a database: its own grant, else the higher one of `*` and `_system`.
    pub(in super::super) fn database(&self, name: &str) -> Level {
        self.configured(name, None)
            .or_else(|| self.configured(ANY, None).max(self.configured(SYSTEM, None)))
            .unwrap_or(Level::None)
    }

    /// The level on a collection: its own grant, else the higher one of the wildcards `db/*` and `*/*`. Names with `_`
    /// follow the database; `_users` is closed to everybody.
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

    /// Whether it is certain, without a look at each, that all collections but `_users` may be read.
    pub(in super::super) fn read_everything(&self, database: &str) -> bool {
        let own = self.databases.get(database);
        let named = own.is_some_and(|own| own.collections.keys().any(|name| name != ANY));
        let any = self.configured(database, Some(ANY)).max(self.configured(ANY, Some(ANY)));
        !named && any >= Some(Level::Read) && self.database(database) >= Level::Read
    }

    /// Whether there is a grant on the database or within it.
    pub(super) fn mentions(&self, database: &str) -> bool {
        self.databases.contains_key(database)
    }

    /// Forgets a database that was dropped.
    pub(super) fn forget(&mut self, database: &str) {
        self.databases.remove(database);
    }

    /// As they are stored.
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

    /// From their stored form; `None` if a level is none of the three.
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

    /// `db`, `db/collection` or `*` and a level per word, then what is asked, then the answer (manual: managing users, levels and their resolution).
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
