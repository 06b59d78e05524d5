//! Calls as a table: name, arguments as JSON, value as JSON.

use super::*;
use crate::value::parse;

#[test]
fn functions_answer_as_the_server_does() {
    for (name, arguments, expected) in [
        ("CONCAT", r#"["a", null, 1.0, [2]]"#, r#""a1[2]""#),
        ("CONCAT", r#"[["a", "b", null]]"#, r#""ab""#),
        ("CONCAT_SEPARATOR", r#"[", ", "a", null, "b"]"#, r#""a, b""#),
        ("SUBSTRING", r#"["höllo", 1, 2]"#, r#""öl""#),
        ("SUBSTRING", r#"["hello", -2]"#, r#""lo""#),
        ("SPLIT", r#"["foo, bar & baz", [", ", " & "]]"#, r#"["foo","bar","baz"]"#),
        (
            "SUBSTITUTE",
            r#"["the quick foxx", ["the", "quick", "foxx"], ["A", "VOID!"]]"#,
            r#""A VOID! ""#,
        ),
        ("LIKE", r#"["a\\b%c", "_\\\\b\\%%"]"#, "true"),
        ("LIKE", r#"["ABC", "a%", true]"#, "true"),
        ("LIKE", r#"["abc", "a_"]"#, "false"),
        ("CONTAINS", r#"["foobar", "bar", true]"#, "3"),
        ("FIND_LAST", r#"["foobarfoo", "foo", 0, 7]"#, "0"),
        ("LEVENSHTEIN_DISTANCE", r#"["foobar", "bar"]"#, "3"),
        (
            "SHA256",
            r#"["foobar"]"#,
            r#""c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2""#,
        ),
        ("SLICE", "[[1,2,3,4,5], -3, 2]", "[3,4]"),
        ("SLICE", "[[1,2,3,4,5], 1, -1]", "[2,3,4]"),
        ("FLATTEN", "[[1,[2,[3]]], 2]", "[1,2,3]"),
        ("UNIQUE", r#"[[2, "a", 2.0, 1]]"#, r#"[2,"a",1]"#),
        ("INTERSECTION", "[[1,2,3],[3,2],[2,3,9]]", "[2,3]"),
        ("MINUS", "[[1,2,3,4],[3],[1]]", "[2,4]"),
        ("OUTERSECTION", "[[1,2],[2,3]]", "[1,3]"),
        ("POSITION", "[[1,2], 2, true]", "1"),
        ("RANGE", "[1, 2, 0.5]", "[1,1.5,2]"),
        ("RANGE", "[3, 1]", "[3,2,1]"),
        ("LENGTH", r#"["äö"]"#, "2"),
        ("LENGTH", "[null]", "0"),
        ("KEEP", r#"[{"a":1,"b":2,"c":3}, "c", ["a"]]"#, r#"{"a":1,"c":3}"#),
        ("UNSET", r#"[{"a":1,"b":2}, "b"]"#, r#"{"a":1}"#),
        (
            "KEEP_RECURSIVE",
            r#"[{"foo":{"bar":{"foo":1},"baz":3},"baz":4}, "foo", "baz"]"#,
            r#"{"foo":{"baz":3},"baz":4}"#,
        ),
        (
            "UNSET_RECURSIVE",
            r#"[{"foo":{"bar":{"foo":1},"baz":3},"baz":4}, "baz"]"#,
            r#"{"foo":{"bar":{"foo":1}}}"#,
        ),
        ("MERGE", r#"[{"a":{"x":1},"b":1}, {"a":{"y":2}}]"#, r#"{"a":{"y":2},"b":1}"#),
        ("MERGE_RECURSIVE", r#"[{"a":{"x":1}}, {"a":{"y":2}}]"#, r#"{"a":{"x":1,"y":2}}"#),
        ("ZIP", r#"[["a","b"],[1,2]]"#, r#"{"a":1,"b":2}"#),
        ("MATCHES", r#"[{"test":1}, [{"test":1,"foo":"bar"},{"foo":1},{"test":1}], true]"#, "2"),
        ("PARSE_IDENTIFIER", r#"["c/k"]"#, r#"{"collection":"c","key":"k"}"#),
        ("ROUND", "[-2.5]", "-2"),
        ("SUM", "[[1, null, 2.5]]", "3.5"),
        ("AVERAGE", "[[]]", "null"),
        ("MEDIAN", "[[4,2,3,1]]", "2.5"),
        ("COSINE_SIMILARITY", "[[0,1],[1,0]]", "0"),
        ("L2_DISTANCE", "[[1,1],[4,5]]", "5"),
        ("L1_DISTANCE", "[[1,1],[[4,5],[1,2]]]", "[7,1]"),
        ("DECAY_LINEAR", "[5, 0, 10, 0, 0.5]", "0.75"),
        ("TO_NUMBER", r#"[" 12.50 "]"#, "12.5"),
        ("TO_STRING", r#"[[1,"a",{"b":null}]]"#, r#""[1,\"a\",{\"b\":null}]""#),
        ("TYPENAME", "[1.5]", r#""number""#),
        ("NOT_NULL", "[null, 0, 1]", "0"),
        ("DATE_ISO8601", r#"["2020-02-29 10:20+02:00"]"#, r#""2020-02-29T08:20:00.000Z""#),
        ("DATE_ISO8601", "[0]", r#""1970-01-01T00:00:00.000Z""#),
        ("DATE_TIMESTAMP", r#"["2019-08-02T23:03:06.7Z"]"#, "1564786986700"),
        ("DATE_ADD", r#"["2020-01-31", "P1M2DT3H"]"#, r#""2020-03-04T03:00:00.000Z""#),
        ("DATE_SUBTRACT", r#"["2020-01-01", 1, "day"]"#, r#""2019-12-31T00:00:00.000Z""#),
        ("DATE_DIFF", r#"["2020-01-01", "2020-01-02T12:00:00Z", "h"]"#, "36"),
        ("DATE_ISOWEEKYEAR", r#"["2023-01-01"]"#, r#"{"week":52,"year":2022}"#),
        (
            "DATE_FORMAT",
            r#"["2020-08-29T16:30:05.123Z", "%yyyy/%m/%dd %www %q %fff%%"]"#,
            r#""2020/8/29 Sat 3 123%""#,
        ),
        ("DATE_TRUNC", r#"["2020-08-29T16:30:05.123Z", "month"]"#, r#""2020-08-01T00:00:00.000Z""#),
        ("IS_KEY", r#"["a b"]"#, "false"),
    ] {
        let (value, warnings) = call(name, arguments);
        assert_eq!(value, expected, "{name}{arguments}");
        assert_eq!(warnings, [], "{name}{arguments}");
    }
}

#[test]
fn wrong_types_are_null_and_a_warning() {
    for (name, arguments, code) in [
        ("FIRST", "[1]", 1542),
        ("MERGE", "[1]", 1542),
        ("SUM", r#"[["a"]]"#, 1561),
        ("SQRT", "[-1]", 1561),
        ("DATE_YEAR", r#"["2020-13-01"]"#, 1572),
        ("COSINE_SIMILARITY", "[[1],[1,2]]", 1542),
        ("JSON_PARSE", r#"["{"]"#, 1542),
    ] {
        let (value, warnings) = call(name, arguments);
        assert_eq!((value.as_str(), warnings[0].0), ("null", code), "{name}{arguments}");
    }
}

fn call(name: &str, arguments: &str) -> (String, Vec<(u32, String)>) {
    let entry = function(name).expect(name);
    let arguments = parse(arguments.as_bytes()).expect(arguments);
    let mut warnings = Warnings::default();
    let mut call = Call { name: entry.name, warnings: &mut warnings };
    let value = (entry.run)(&mut call, arguments.as_array().expect("a list")).expect(name);
    (value.to_json(), warnings.kept)
}

#[test]
fn every_date_survives_the_calendar() {
    for days in (-719_528..2_932_896).step_by(37) {
        let (year, month, day) = calendar::date_of(days);
        assert_eq!(calendar::days_of(year, month, day), days);
        let ms = days * calendar::DAY_MS + 12_345_678;
        assert_eq!(calendar::parse(&calendar::Moment::of(ms).iso()), Some(ms));
    }
}
