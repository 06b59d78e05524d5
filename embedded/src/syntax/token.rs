//! The tokens that the lexer passes to the parser.

use std::sync::Arc;

use crate::value::Value;

/// A token and its position in the query text.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    /// Byte offset of the token's first character.
    pub start: usize,
}

/// Kinds of tokens, with their values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A reserved word.
    Word(Word),
    /// An unquoted name, or a contextual word such as `COUNT` or `KEEP`.
    Name(Arc<str>),
    /// A name in back-ticks or forward ticks, which is never a contextual word.
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
    /// The end of the query text.
    End,
}

macro_rules! words {
    ($($word:ident = $text:literal $role:literal,)*) => {
        /// Reserved words, which are case-insensitive.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Word { $($word,)* }

        impl Word {
            /// Returns the reserved word with a given spelling, if there is one.
            pub(super) fn of(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case($text) { return Some(Self::$word); })*
                None
            }

            /// Returns a reserved word's name in syntax error messages.
            pub(super) fn shown(self) -> &'static str {
                match self { $(Self::$word => $role,)* }
            }
        }
    };
}

words! {
    For = "FOR" "FOR declaration",
    Let = "LET" "LET declaration",
    Filter = "FILTER" "FILTER declaration",
    Return = "RETURN" "RETURN declaration",
    Collect = "COLLECT" "COLLECT declaration",
    Sort = "SORT" "SORT declaration",
    Limit = "LIMIT" "LIMIT declaration",
    Window = "WINDOW" "WINDOW declaration",
    Distinct = "DISTINCT" "DISTINCT modifier",
    Aggregate = "AGGREGATE" "AGGREGATE keyword",
    Asc = "ASC" "ASC keyword",
    Desc = "DESC" "DESC keyword",
    Not = "NOT" "not operator",
    And = "AND" "and operator",
    Or = "OR" "or operator",
    In = "IN" "IN keyword",
    Into = "INTO" "INTO keyword",
    With = "WITH" "WITH keyword",
    Remove = "REMOVE" "REMOVE command",
    Insert = "INSERT" "INSERT command",
    Update = "UPDATE" "UPDATE command",
    Replace = "REPLACE" "REPLACE command",
    Upsert = "UPSERT" "UPSERT command",
    Like = "LIKE" "like operator",
    Null = "NULL" "null",
    True = "TRUE" "true",
    False = "FALSE" "false",
    Graph = "GRAPH" "GRAPH keyword",
    ShortestPath = "SHORTEST_PATH" "SHORTEST_PATH keyword",
    KShortestPaths = "K_SHORTEST_PATHS" "K_SHORTEST_PATHS keyword",
    AllShortestPaths = "ALL_SHORTEST_PATHS" "ALL_SHORTEST_PATHS keyword",
    KPaths = "K_PATHS" "K_PATHS keyword",
    Outbound = "OUTBOUND" "outbound modifier",
    Inbound = "INBOUND" "inbound modifier",
    Any = "ANY" "any modifier",
    All = "ALL" "all modifier",
    None = "NONE" "none modifier",
}

/// Operators and brackets, longest first.
pub(super) const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "=~", "!~", "&&", "||", "..", "::", "<", ">", "=", "!", "+", "-", "*",
    "/", "%", "?", ":", "(", ")", "[", "]", "{", "}", ",", ".",
];

/// Returns a sign's name in syntax error messages.
pub(super) fn shown_sign(sign: &'static str) -> &'static str {
    match sign {
        "=" => "assignment",
        "!" => "not operator",
        "&&" => "and operator",
        "||" => "or operator",
        "=~" => "~= operator",
        "!~" => "~! operator",
        "==" => "== operator",
        "!=" => "!= operator",
        "<" => "< operator",
        ">" => "> operator",
        "<=" => "<= operator",
        ">=" => ">= operator",
        "+" => "+ operator",
        "-" => "- operator",
        "*" => "* operator",
        "/" => "/ operator",
        "%" => "% operator",
        "," => "\",\"",
        "." => "'.'",
        other => other,
    }
}
