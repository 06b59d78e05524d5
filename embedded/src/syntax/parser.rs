//! Parses query texts with recursive descent for statements and precedence climbing for
//! expressions, and limits the depth of nesting.

use super::ast::{Binary, Body, Expansion, Expr, Key, Name, Quantifier, Source, Unary};
use super::lexer::{fault, tokens};
use super::token::{Kind, Token, Word, shown_sign};
use crate::error::{Code, Error, Result};
use crate::value::Value;

/// Maximum length of a query text, in bytes.
pub const QUERY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum nesting depth of an expression (ArangoDB's limit; a deeper expression causes error
/// 1524).
pub(super) const EXPRESSION_DEPTH_MAX: usize = 500;

/// Parses a query. Returns error 1502 for an empty query, or 1501 with a position for any other
/// syntax error.
pub fn parse(text: &str) -> Result<Body> {
    if text.len() > QUERY_BYTES_MAX {
        return Err(Error::new(
            Code::QueryParse,
            format!("query longer than {QUERY_BYTES_MAX} bytes"),
        ));
    }
    let tokens = tokens(text)?;
    if tokens.len() == 1 {
        return Err(Error::of(Code::QueryEmpty));
    }
    let mut parser = Parser { text, tokens, at: 0, height: 0, depth: 0, no_in: false };
    let body = parser.query()?;
    match parser.peek() {
        Kind::End => Ok(body),
        _ => parser.unexpected("expecting end of query string"),
    }
}

/// The state of the parser.
pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// Height of the syntax tree of the last parsed expression.
    pub(super) height: usize,
    /// Number of nested calls of the expression parser.
    depth: usize,
    /// Whether `IN` ends the expression, because it introduces the collection of a modification.
    no_in: bool,
}

/// Returns the binding power and the operator of an infix token, or `None` for any other token.
fn infix(kind: &Kind) -> Option<(u8, Binary)> {
    Some(match kind {
        Kind::Word(Word::Or) | Kind::Sign("||") => (2, Binary::Or),
        Kind::Word(Word::And) | Kind::Sign("&&") => (3, Binary::And),
        Kind::Sign("==") => (5, Binary::Equal),
        Kind::Sign("!=") => (5, Binary::NotEqual),
        Kind::Word(Word::Like) => (5, Binary::Like),
        Kind::Sign("=~") => (5, Binary::Match),
        Kind::Sign("!~") => (5, Binary::NotMatch),
        Kind::Word(Word::In) => (6, Binary::In),
        Kind::Sign("<") => (7, Binary::Less),
        Kind::Sign("<=") => (7, Binary::LessEqual),
        Kind::Sign(">") => (7, Binary::Greater),
        Kind::Sign(">=") => (7, Binary::GreaterEqual),
        Kind::Sign("..") => (8, Binary::Range),
        Kind::Sign("+") => (9, Binary::Add),
        Kind::Sign("-") => (9, Binary::Subtract),
        Kind::Sign("*") => (10, Binary::Multiply),
        Kind::Sign("/") => (10, Binary::Divide),
        Kind::Sign("%") => (10, Binary::Modulo),
        _ => return None,
    })
}

const TERNARY_POWER: u8 = 1;

fn comparison(operator: Binary) -> bool {
    use Binary::{
        Equal, Greater, GreaterEqual, In, Less, LessEqual, Like, Match, NotEqual, NotIn, NotLike,
        NotMatch,
    };
    let ordered = matches!(operator, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual);
    ordered || matches!(operator, In | NotIn | Like | NotLike | Match | NotMatch)
}

impl Parser<'_> {
    /// Returns the next token.
    pub(super) fn peek(&self) -> &Kind {
        self.peek_at(0)
    }

    /// Returns the token `ahead` tokens after the next one, or the end token if there are fewer.
    pub(super) fn peek_at(&self, ahead: usize) -> &Kind {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].kind
    }

    /// Skips the next token, except the end token.
    pub(super) fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    /// Skips the next token if the token has the given kind. Returns whether a token was skipped.
    pub(super) fn accept(&mut self, kind: &Kind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.advance();
        }
        found
    }

    /// Skips the next token if it is the given reserved word. Returns whether a token was skipped.
    pub(super) fn word(&mut self, word: Word) -> bool {
        self.accept(&Kind::Word(word))
    }

    /// Skips the next token if it is the given sign. Returns whether a token was skipped.
    pub(super) fn sign(&mut self, sign: &'static str) -> bool {
        self.accept(&Kind::Sign(sign))
    }

    /// Whether the token `ahead` tokens after the next one is a contextual word (`KEEP`, `COUNT`,
    /// `OPTIONS`, …).
    pub(super) fn is_soft(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), Kind::Name(name) if name.eq_ignore_ascii_case(word))
    }

    /// Skips the next token if it is the given contextual word. Returns whether a token was
    /// skipped.
    pub(super) fn soft(&mut self, word: &str) -> bool {
        let found = self.is_soft(0, word);
        if found {
            self.advance();
        }
        found
    }

    /// Skips a required sign, or returns error 1501 for any other token.
    pub(super) fn expect_sign(&mut self, sign: &'static str) -> Result<()> {
        if self.sign(sign) {
            Ok(())
        } else {
            self.unexpected(&format!("expecting {}", shown_sign(sign)))
        }
    }

    /// Skips a required reserved word, or returns error 1501 for any other token.
    pub(super) fn expect_word(&mut self, word: Word) -> Result<()> {
        if self.word(word) {
            Ok(())
        } else {
            self.unexpected(&format!("expecting {}", word.shown()))
        }
    }

    /// Returns error 1501 for an unexpected next token.
    pub(super) fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let token = &self.tokens[self.at];
        let at_least = self.is_soft(0, "AT") && self.is_soft(1, "LEAST");
        let what = match &token.kind {
            Kind::End => "end of query string",
            Kind::Word(word) => word.shown(),
            _ if at_least => "at least modifier",
            Kind::Name(_) | Kind::QuotedName(_) => "identifier",
            Kind::Text(_) => "quoted string",
            Kind::Number(Value::Double(_)) => "number",
            Kind::Number(_) => "integer number",
            Kind::Bind(_) => "bind parameter",
            Kind::CollectionBind(_) => "bind data source parameter",
            Kind::Sign(sign) => shown_sign(sign),
        };
        let comma = if wanted.is_empty() { "" } else { ", " };
        Err(fault(
            self.text,
            token.start,
            &format!("syntax error, unexpected {what}{comma}{wanted}"),
        ))
    }

    /// Returns error 1501 with a given message at the next token.
    pub(super) fn wrong<T>(&self, what: &str) -> Result<T> {
        Err(fault(self.text, self.tokens[self.at].start, what))
    }

    /// Parses a name.
    pub(super) fn name(&mut self) -> Result<Name> {
        match self.peek() {
            Kind::Name(name) | Kind::QuotedName(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => self.unexpected("expecting identifier"),
        }
    }

    /// Parses a collection, given by name or by a bind parameter `@@name`.
    pub(super) fn source(&mut self) -> Result<Source> {
        if let Kind::CollectionBind(name) = self.peek() {
            let name = name.clone();
            self.advance();
            return Ok(Source::Bind(name));
        }
        Ok(Source::Name(self.name()?))
    }

    /// Parses a collection, given by name or by a bind parameter `@@name` or `@name`. `WITH` and
    /// lists of edge collections allow both.
    pub(super) fn source_or_value_bind(&mut self) -> Result<Source> {
        if let Kind::Bind(name) = self.peek() {
            let name = name.clone();
            self.advance();
            return Ok(Source::ValueBind(name));
        }
        self.source()
    }

    /// Sets the height of an expression to one above the height `below` of its operands. Returns
    /// error 1524 if the height exceeds `EXPRESSION_DEPTH_MAX`.
    pub(super) fn grow(&mut self, below: usize) -> Result<()> {
        self.height = below + 1;
        if self.height > EXPRESSION_DEPTH_MAX {
            Err(Error::of(Code::QueryTooMuchNesting))
        } else {
            Ok(())
        }
    }

    /// Parses an expression.
    pub(super) fn expression(&mut self) -> Result<Expr> {
        let outer = std::mem::replace(&mut self.no_in, false);
        let result = self.climb(0);
        self.no_in = outer;
        result
    }

    /// Parses an expression before `IN collection` or `INTO collection`. In such an expression,
    /// `IN` is not an operator.
    pub(super) fn expression_before_in(&mut self) -> Result<Expr> {
        let outer = std::mem::replace(&mut self.no_in, true);
        let result = self.climb(0);
        self.no_in = outer;
        result
    }

    fn climb(&mut self, power_min: u8) -> Result<Expr> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(Error::of(Code::QueryTooMuchNesting));
        }
        let mut left = self.unary()?;
        loop {
            let left_height = self.height;
            if TERNARY_POWER >= power_min && self.sign("?") {
                left = self.ternary(left, left_height)?;
                continue;
            }
            let Some((power, quantifier, operator, length)) = self.operator()? else { break };
            if power < power_min || power == 0 {
                break;
            }
            for _ in 0..length {
                self.advance();
            }
            let quantifier = self.finish_quantifier(quantifier)?;
            let operator = self.finish_operator(operator, quantifier.is_some());
            let right = self.climb(power + 1)?;
            self.grow(left_height.max(self.height))?;
            left = match quantifier {
                Some(q) => Expr::Quantified(Box::new(q), operator, Box::new(left), Box::new(right)),
                None => Expr::Binary(operator, Box::new(left), Box::new(right)),
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Looks for an infix operator at the next token. Returns the operator's binding power, its
    /// quantifier (such as `ANY`), the operator itself, and the number of quantifier tokens before
    /// the operator.
    fn operator(&self) -> Result<Option<(u8, Option<Word>, Binary, usize)>> {
        let word = match self.peek() {
            Kind::Word(word @ (Word::All | Word::Any | Word::None)) => Some(*word),
            _ => None,
        };
        let at_least = self.is_soft(0, "AT") && self.is_soft(1, "LEAST");
        if at_least {
            // The operator after `AT LEAST (n)` is read later. It is a comparison, and every
            // comparison with `AT LEAST` has the binding power 5.
            return Ok(Some((5, Some(Word::In), Binary::Equal, 2)));
        }
        let ahead = usize::from(word.is_some());
        let negated = matches!(self.peek_at(ahead), Kind::Word(Word::Not));
        if negated {
            return Ok(match self.peek_at(ahead + 1) {
                Kind::Word(Word::In) if !self.no_in => Some((6, word, Binary::NotIn, ahead)),
                Kind::Word(Word::Like) => Some((5, word, Binary::NotLike, ahead)),
                _ => None,
            });
        }
        let Some((power, operator)) = infix(self.peek_at(ahead)) else { return Ok(None) };
        if (operator == Binary::In && self.no_in && word.is_none())
            || (word.is_some() && !comparison(operator))
        {
            return Ok(None);
        }
        Ok(Some((power, word, operator, ahead)))
    }

    /// Returns the quantifier of a word; for `AT LEAST`, also reads `(n)`.
    fn finish_quantifier(&mut self, word: Option<Word>) -> Result<Option<Quantifier>> {
        Ok(match word {
            Some(Word::All) => Some(Quantifier::All),
            Some(Word::Any) => Some(Quantifier::Any),
            Some(Word::None) => Some(Quantifier::None),
            Some(_) => {
                let count = self.at_least_count()?;
                let negated = *self.peek() == Kind::Word(Word::Not)
                    && matches!(self.peek_at(1), Kind::Word(Word::In | Word::Like));
                let good = negated || infix(self.peek()).is_some_and(|(_, o)| comparison(o));
                if !good {
                    return self.unexpected("expecting a comparison operator");
                }
                Some(Quantifier::AtLeast(count))
            }
            None => None,
        })
    }

    /// Parses `(n)` after `AT LEAST` and returns `n`.
    fn at_least_count(&mut self) -> Result<Expr> {
        self.expect_sign("(")?;
        let count = self.expression()?;
        self.expect_sign(")")?;
        Ok(count)
    }

    /// Skips the tokens of the operator, and returns the operator.
    fn finish_operator(&mut self, seen: Binary, quantified: bool) -> Binary {
        let operator = if self.word(Word::Not) {
            if *self.peek() == Kind::Word(Word::Like) { Binary::NotLike } else { Binary::NotIn }
        } else if quantified {
            infix(self.peek()).map_or(seen, |(_, operator)| operator)
        } else {
            seen
        };
        self.advance();
        operator
    }

    fn ternary(&mut self, condition: Expr, condition_height: usize) -> Result<Expr> {
        let mut height = condition_height;
        let yes = if self.sign(":") {
            None
        } else {
            let yes = self.expression()?;
            height = height.max(self.height);
            self.expect_sign(":")?;
            Some(Box::new(yes))
        };
        let no = self.climb(TERNARY_POWER)?;
        self.grow(height.max(self.height))?;
        Ok(Expr::Ternary(Box::new(condition), yes, Box::new(no)))
    }

    fn unary(&mut self) -> Result<Expr> {
        let mut operators = Vec::new();
        loop {
            if self.word(Word::Not) || self.sign("!") {
                operators.push(Unary::Not);
            } else if self.sign("-") {
                operators.push(Unary::Minus);
            } else if self.sign("+") {
                operators.push(Unary::Plus);
            } else {
                break;
            }
            if operators.len() > EXPRESSION_DEPTH_MAX {
                return Err(Error::of(Code::QueryTooMuchNesting));
            }
        }
        let mut value = self.postfix()?;
        while let Some(operator) = operators.pop() {
            self.grow(self.height)?;
            value = Expr::Unary(operator, Box::new(value));
        }
        Ok(value)
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut value = self.primary()?;
        loop {
            let height = self.height;
            if self.sign(".") {
                let key = self.attribute_key()?;
                value = extend(value, |base| Expr::Attribute(Box::new(base), key));
                self.grow(height)?;
            } else if self.sign("[") {
                value = self.bracket(value)?;
                self.grow(height.max(self.height))?;
            } else {
                return Ok(value);
            }
        }
    }

    fn attribute_key(&mut self) -> Result<Key> {
        if let Kind::Bind(name) = self.peek() {
            let name = name.clone();
            self.advance();
            return Ok(Key::Bind(name));
        }
        Ok(Key::Name(self.name()?))
    }

    /// Parses what follows `[`: an index, an expansion (`[*]`) or a question-mark operator (`[?]`).
    fn bracket(&mut self, value: Expr) -> Result<Expr> {
        let mut stars = 0;
        while self.sign("*") {
            stars += 1;
        }
        if stars > 0 {
            return self.expansion(value, stars);
        }
        if self.sign("?") {
            return self.question(value);
        }
        let index = self.expression()?;
        self.expect_sign("]")?;
        if let Expr::Literal(Value::String(name)) = &index {
            let key = Key::Name(name.clone());
            return Ok(extend(value, |base| Expr::Attribute(Box::new(base), key)));
        }
        Ok(extend(value, |base| Expr::Index(Box::new(base), Box::new(index))))
    }

    fn expansion(&mut self, value: Expr, stars: usize) -> Result<Expr> {
        let mut height = 0;
        let filter = self.optional_expression(Word::Filter, &mut height)?;
        let limit = if self.word(Word::Limit) {
            let first = self.expression()?;
            height = height.max(self.height);
            if self.sign(",") {
                let count = self.expression()?;
                height = height.max(self.height);
                Some((Some(first), count))
            } else {
                Some((None, first))
            }
        } else {
            None
        };
        let projection = self.optional_expression(Word::Return, &mut height)?;
        self.expect_sign("]")?;
        self.height = height;
        let build = |base| {
            Expr::Expansion(Box::new(Expansion {
                base,
                stars,
                filter,
                limit,
                projection,
                tail: Expr::Element,
            }))
        };
        // `[**]` expands the whole preceding value, while `[*]` expands each item of a preceding
        // expansion.
        Ok(if stars > 1 { build(value) } else { extend(value, build) })
    }

    fn question(&mut self, value: Expr) -> Result<Expr> {
        let mut height = 0;
        let quantifier = if self.word(Word::All) {
            Some(Quantifier::All)
        } else if self.word(Word::Any) {
            Some(Quantifier::Any)
        } else if self.word(Word::None) {
            Some(Quantifier::None)
        } else if self.is_soft(0, "AT") && self.is_soft(1, "LEAST") {
            self.advance();
            self.advance();
            Some(Quantifier::AtLeast(self.at_least_count()?))
        } else if matches!(self.peek(), Kind::Sign("]") | Kind::Word(Word::Filter)) {
            None
        } else {
            let count = self.expression()?;
            height = self.height;
            Some(Quantifier::Exactly(count))
        };
        let filter = self.optional_expression(Word::Filter, &mut height)?;
        self.expect_sign("]")?;
        if quantifier.is_some() && filter.is_none() {
            return self.unexpected("expecting FILTER");
        }
        self.height = height;
        Ok(extend(value, |base| {
            Expr::Question(Box::new(base), quantifier.map(Box::new), filter.map(Box::new))
        }))
    }

    fn optional_expression(&mut self, word: Word, height: &mut usize) -> Result<Option<Expr>> {
        if !self.word(word) {
            return Ok(None);
        }
        let value = self.expression()?;
        *height = (*height).max(self.height);
        Ok(Some(value))
    }
}

/// Applies an access after an expansion to the items of the innermost expansion.
fn extend(value: Expr, access: impl FnOnce(Expr) -> Expr) -> Expr {
    match value {
        Expr::Expansion(mut expansion) => {
            let tail = std::mem::replace(&mut expansion.tail, Expr::Element);
            expansion.tail = extend(tail, access);
            Expr::Expansion(expansion)
        }
        other => access(other),
    }
}
