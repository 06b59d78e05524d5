//! What the lexer hands to the parser.

use std::sync::Arc;

use crate::value::Value;

/// One token and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    /// Byte offset of the first character.
    pub start: usize,
}

/// Kinds of token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A reserved word.
    Word(Word),
    /// A plain name; contextual words such as `COUNT` or `KEEP` are names too.
    Name(Arc<str>),
    /// A name in back-ticks or forward ticks; never a contextual word.
    QuotedName(Arc<str>),
    /// A string literal.
    Text(Arc<str>),
    /// A number literal.
    Number(Value),
    /// `@name`
    Bind(Arc<str>),
    /// `@@name`
    CollectionBind(Arc<str>),
    /// An operator or a bracket.
    Sign(&'static str),
    /// The end of the text.
    End,
}

macro_rules! words {
    ($($word:ident = $text:literal,)*) => {
        /// Reserved words, in any case of letters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Word { $($word,)* }

        impl Word {
            /// The reserved word spelled like this, if it is one.
            pub(super) fn of(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case($text) { return Some(Self::$word); })*
                None
            }
        }
    };
}

words! {
    For = "FOR", Let = "LET", Filter = "FILTER", Return = "RETURN", Collect = "COLLECT", Sort = "SORT",
    Limit = "LIMIT", Window = "WINDOW", Distinct = "DISTINCT", Aggregate = "AGGREGATE", Asc = "ASC", Desc = "DESC",
    Not = "NOT", And = "AND", Or = "OR", In = "IN", Into = "INTO", With = "WITH", Remove = "REMOVE",
    Insert = "INSERT", Update = "UPDATE", Replace = "REPLACE", Upsert = "UPSERT", Like = "LIKE", Null = "NULL",
    True = "TRUE", False = "FALSE", Graph = "GRAPH", ShortestPath = "SHORTEST_PATH",
    KShortestPaths = "K_SHORTEST_PATHS", AllShortestPaths = "ALL_SHORTEST_PATHS", KPaths = "K_PATHS",
    Outbound = "OUTBOUND", Inbound = "INBOUND", Any = "ANY", All = "ALL", None = "NONE",
}

/// Operators and brackets, longest first.
pub(super) const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "=~", "!~", "&&", "||", "..", "::", "<", ">", "=", "!", "+", "-", "*",
    "/", "%", "?", ":", "(", ")", "[", "]", "{", "}", ",", ".",
];
