//! Writes and reads numbers in ArangoDB's format: the shortest digits that parse to the same
//! number, and `.0` after whole doubles from 2^53 on.

use super::json::Sink;

/// 2^53. From this number on, doubles cannot represent every integer, and ArangoDB prints whole
/// doubles with `.0`.
const EXACT_INTEGERS_END: f64 = 9_007_199_254_740_992.0;
/// From this number on, doubles are printed with an exponent.
const PLAIN_DIGITS_END: f64 = 1e21;

/// Appends a finite double as JSON text.
pub fn write_double(x: f64, out: &mut impl Sink) {
    if x == 0.0 {
        out.put(if x.is_sign_negative() { "-0" } else { "0" });
        return;
    }
    let size = x.abs();
    if x.fract() == 0.0 && size < PLAIN_DIGITS_END {
        out.put_format(format_args!("{x:.0}"));
        if size >= EXACT_INTEGERS_END {
            out.put(".0");
        }
        return;
    }
    if (1e-5..PLAIN_DIGITS_END).contains(&size) {
        out.put_format(format_args!("{x}"));
        return;
    }
    let text = format!("{x:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => {
            out.put_format(format_args!("{digits}e+{exponent}"));
        }
        _ => out.put(&text),
    }
}

/// Returns a finite double as JSON text.
pub fn double_to_string(x: f64) -> String {
    let mut out = String::new();
    write_double(x, &mut out);
    out
}

/// Parses a decimal number of JSON or AQL. An integer without fraction or exponent that fits 64
/// bits stays an integer; any other number becomes a double. Returns `None` for a number out of
/// range.
pub fn parse_number(text: &str) -> Option<super::Value> {
    use super::Value;
    if !text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        if text == "-0" {
            return Some(Value::Double(-0.0));
        }
        if let Ok(i) = text.parse::<i64>() {
            return Some(Value::Int(i));
        }
        if let Ok(u) = text.parse::<u64>() {
            return Some(Value::UInt(u));
        }
    }
    text.parse::<f64>().ok().filter(|x| x.is_finite()).map(Value::Double)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_the_server_prints_them() {
        for (x, text) in [
            (2.5, "2.5"),
            (5.0, "5"),
            (-3.0, "-3"),
            (1e8, "100000000"),
            (9_007_199_254_740_991.0, "9007199254740991"),
            (9_007_199_254_740_992.0, "9007199254740992.0"),
            (1e16, "10000000000000000.0"),
            (1e300, "1e+300"),
            (1e-7, "1e-7"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.5e-9, "1.5e-9"),
            (0.0001, "0.0001"),
        ] {
            assert_eq!(double_to_string(x), text);
            assert_eq!(text.parse::<f64>().expect("reads back"), x);
        }
    }
}
