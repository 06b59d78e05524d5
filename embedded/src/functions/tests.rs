//! Tests of function calls, as tables: each row has a function's name, its arguments as JSON and
//! the expected value as JSON.

use super::*;
use crate::error::Result;
use crate::value::{Value, parse};

#[test]
fn functions_answer_as_the_server_does() {
    answer(&[
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
        ("SLICE", "[[1,2,3,4,5], -3, 2]", "[3,4]"),
        ("SLICE", "[[1,2,3,4,5], 1, -1]", "[2,3,4]"),
        ("FLATTEN", "[[1,[2,[3]]], 2]", "[1,2,3]"),
        ("UNIQUE", r#"[[2, "a", 2.0, 1]]"#, r#"[2,"a",1]"#),
        ("INTERSECTION", "[[1,2,3],[3,2],[2,3,9]]", "[3,2]"),
        ("MINUS", "[[1,2,3,4],[3],[1]]", "[4,2]"),
        ("OUTERSECTION", "[[1,2,4,4],[2,3]]", "[3,1]"),
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
            r#"{"baz":4,"foo":{"baz":3}}"#,
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
    ]);
}

#[test]
fn patterns_hashes_and_likeness_are_those_of_the_server() {
    answer(&[
        ("REGEX_TEST", r#"["the quick brown fox", "the.*fox"]"#, "true"),
        ("REGEX_TEST", r#"["THE", "^the$", true]"#, "true"),
        ("REGEX_TEST", r#"["foo\nbar", "foo.bar"]"#, "false"),
        ("REGEX_TEST", r#"["foo\n", "foo$"]"#, "true"),
        ("REGEX_TEST", r#"["a\tb", "a\\hb"]"#, "true"),
        ("REGEX_TEST", r#"["a.b", "^\\Qa.b\\E$"]"#, "true"),
        ("REGEX_TEST", r#"["abab", "^(ab)\\1$"]"#, "true"),
        ("REGEX_MATCHES", r#"["ac", "(a)(b)?(c)"]"#, r#"["ac","a","","c"]"#),
        ("REGEX_MATCHES", r#"["abc", "x"]"#, "null"),
        ("REGEX_REPLACE", r#"["a1b22", "([0-9]+)", "<$1>"]"#, r#""a<1>b<22>""#),
        ("REGEX_REPLACE", r#"["foo", "o", "\\$"]"#, r#""f$$""#),
        ("REGEX_REPLACE", r#"["baac", "a*", "-"]"#, r#""-b--c-""#),
        ("REGEX_SPLIT", r#"["a1b2c", "[0-9]"]"#, r#"["a","b","c"]"#),
        ("REGEX_SPLIT", r#"["a1b", "([0-9])"]"#, r#"["a","1","b"]"#),
        ("REGEX_SPLIT", r#"["cats", ""]"#, r#"["c","a","t","s"]"#),
        ("REGEX_SPLIT", r#"["a,b,c", ",", false, 2]"#, r#"["a","b"]"#),
        ("SPLIT", r#"["foo-bar-baz", ["-", "."], 2]"#, r#"["foo","bar"]"#),
        ("SPLIT", r#"["a,b,", ","]"#, r#"["a","b",""]"#),
        ("SPLIT", r#"["abc", ""]"#, r#"["a","b","c"]"#),
        ("SPLIT", "[123]", "[123]"),
        ("SPLIT", r#"["", ","]"#, r#"[""]"#),
        ("SPLIT", r#"["1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7", ",", 17]"#, SEVENTEEN),
        ("LIKE", r#"["a.b", "a\\.b"]"#, "true"),
        ("LIKE", r#"["a", "a\\"]"#, "true"),
        ("NGRAM_SIMILARITY", r#"["quick fox", "quick foxx", 2]"#, "0.8888888955116272"),
        ("NGRAM_POSITIONAL_SIMILARITY", r#"["quick fox", "quirky fox", 3]"#, "0.6666666865348816"),
        ("LEVENSHTEIN_MATCH", r#"["foo", "ofo", 1]"#, "true"),
        ("LEVENSHTEIN_MATCH", r#"["foo", "ofo", 1, false]"#, "false"),
    ]);
}

const SEVENTEEN: &str = r#"["1","2","3","4","5","6","7","8","9","0","1","2","3","4","5","6","7"]"#;

#[test]
fn zones_move_dates() {
    answer(&[
        ("DATE_UTCTOLOCAL", r#"["2020-03-15", "Europe/Berlin"]"#, r#""2020-03-15T01:00:00.000""#),
        ("DATE_UTCTOLOCAL", r#"["2020-03-15", "UTC"]"#, r#""2020-03-15T00:00:00.000Z""#),
        ("DATE_LOCALTOUTC", r#"["2020-07-15", "Europe/Berlin"]"#, r#""2020-07-14T22:00:00.000Z""#),
        (
            "DATE_LOCALTOUTC",
            r#"["2021-03-16T12:00:00.000", "Africa/Lagos", true]"#,
            r#"{"utc":"2021-03-16T11:00:00.000Z","tzdb":"2026a","zoneInfo":{"name":"WAT","begin":"1919-08-31T23:30:00.000Z","end":null,"dst":false,"offset":3600}}"#,
        ),
        ("DATE_HOUR", r#"["2023-12-31T23:00:00.000Z", "Europe/Berlin"]"#, "0"),
        (
            "DATE_ADD",
            r#"["2023-03-25T12:00:00Z", 1, "day", "Europe/Berlin"]"#,
            r#""2023-03-26T11:00:00.000Z""#,
        ),
        (
            "DATE_TRUNC",
            r#"["2023-03-25 23:00:00", "day", "Europe/Berlin"]"#,
            r#""2023-03-25T23:00:00.000Z""#,
        ),
        (
            "DATE_DIFF",
            r#"["2023-03-25T12:00:00Z", "2023-03-26T12:00:00Z", "h", "Europe/Berlin"]"#,
            "25",
        ),
        (
            "DATE_COMPARE",
            r#"["2023-12-31T23:00:00Z", "2024-01-01", "years", "Europe/Berlin"]"#,
            "true",
        ),
        (
            "DATE_ROUND",
            r#"["2000-04-28T11:11:11.111Z", 15, "minutes"]"#,
            r#""2000-04-28T11:00:00.000Z""#,
        ),
        ("DATE_TIMESTAMP", "[2016, 2, 32]", "1456963200000"),
        ("DATE_TIMESTAMP", "[1970, 1, 1, 26]", "93600000"),
        ("DATE_ADD", r#"["2015-03-01", 0.5, "months"]"#, r#""2015-03-16T00:00:00.000Z""#),
        ("DATE_ADD", r#"["2000-01-01", "PT30M44.4S"]"#, r#""2000-01-01T00:30:44.400Z""#),
        ("DATE_FORMAT", r#"["0099-01-02", "%yyyyyy %yyyy %yy 100%"]"#, r#""+000099 099 99 100""#),
        ("IS_DATESTRING", r#"["2015-02-31"]"#, "true"),
        ("IS_DATESTRING", r#"["2015-02-01t10:00"]"#, "false"),
        ("IS_DATESTRING", r#"["2015-02-01T10:00+0100"]"#, "false"),
        ("DECODE_REV", r#"["_YU0HOEG---"]"#, r#"{"date":"2019-03-11T16:15:05.314Z","count":0}"#),
    ]);
}

#[test]
fn lists_and_objects_keep_the_edges_of_the_server() {
    answer(&[
        ("APPEND", "[null, null]", "null"),
        ("APPEND", "[1, []]", "1"),
        ("APPEND", "[[1], [2, 1], true]", "[1,2]"),
        ("APPEND", "[null, [1, 1], true]", "[1]"),
        ("REMOVE_NTH", r#"[["a","b","c"], -1]"#, r#"["a","b"]"#),
        ("REMOVE_VALUES", "[1, null]", "1"),
        ("SLICE", "[[1,2,3], -5, 2]", "[1,2]"),
        ("RANGE", "[1.5, 2.5]", "[1,2]"),
        ("RANGE", "[-0.75, 1.1, 0.5]", "[-0.75,-0.25,0.25,0.75]"),
        ("INTERLEAVE", "[[1,1,1],[2,2]]", "[1,2,1,2,1]"),
        ("HAS", r#"["x", "y"]"#, "false"),
        ("KEEP", r#"[{"1":1,"b":2}, 1]"#, r#"{"1":1}"#),
        ("VALUE", r#"[{"a":[{"b":7}]}, ["a", 0, "b"]]"#, "7"),
        ("VALUE", r#"[{"a":[1]}, ["a", -1]]"#, "null"),
        ("PARSE_KEY", r#"["a/"]"#, r#""""#),
        ("IS_SAME_COLLECTION", r#"["foo", {"_id":"foo/bar"}]"#, "true"),
        ("CALL", r#"["substring", "this is a test", 0, 4]"#, r#""this""#),
        ("APPLY", r#"["SUBSTRING", ["this is a test", 0, 7]]"#, r#""this is""#),
        ("MIN_MATCH", "[1, 0, true, 2]", "true"),
        ("CONTAINS", r#"["äöb", "b", true]"#, "4"),
        ("FIND_FIRST", r#"["foo", "", 2]"#, "2"),
        ("FIND_LAST", r#"["foo", ""]"#, "3"),
        ("SUBSTRING_BYTES", r#"["räksmörgås", 3, 1, 1, 2]"#, r#""äksm""#),
        ("SUBSTITUTE", r#"["abab", {"a":null,"b":"x"}, 3]"#, r#""xb""#),
        ("SUM", r#"[["a"]]"#, "null"),
        ("SQRT", "[-1]", "null"),
        ("LOG", "[0]", "null"),
        ("VARIANCE_SAMPLE", "[[1,3,6,5,2]]", "4.300000000000001"),
        ("STDDEV_SAMPLE", "[[1]]", "null"),
        ("PERCENTILE", "[[1,2,3,4], 0]", "1"),
        ("PERCENTILE", r#"[[1,2,3,4], 50, "interpolation"]"#, "2.5"),
        ("DECAY_LINEAR", "[[5,6,7], 0, 10, 0, 0.2]", "[0.6,0.52,0.44]"),
        ("TO_NUMBER", r#"[" 0x1A "]"#, "26"),
        ("TO_NUMBER", r#"["+5"]"#, "5"),
        ("TO_NUMBER", r#"["5 x"]"#, "0"),
        ("LEFT", r#"["foobar", "2x"]"#, r#""fo""#),
    ]);
}

#[cfg(feature = "conformance")]
#[test]
fn bits_shapes_and_hashes_are_those_of_the_server() {
    answer(&[
        (
            "SHA256",
            r#"["foobar"]"#,
            r#""c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2""#,
        ),
        ("MD5", r#"["foobar"]"#, r#""3858f62230ac3c915f300c664312c63f""#),
        ("SHA1", r#"["foobar"]"#, r#""8843d7f92416211de9ebb963ff4ce28125932878""#),
        ("CRC32", r#"["123456789"]"#, r#""E3069283""#),
        ("CRC32", r#"["foobar"]"#, r#""D5F5C7F""#),
        ("FNV64", r#"["foobar"]"#, r#""85944171F73967E8""#),
        ("SOUNDEX", r#"["example"]"#, r#""E251""#),
        ("SOUNDEX", r#"["  ekzampul"]"#, r#""E251""#),
        ("SOUNDEX", r#"["12"]"#, r#""""#),
        ("MINHASH", r#"[["foo", "bar"], 5]"#, r#"["OmvEOSfAYs8","Jcz+LQgakgs"]"#),
        ("MINHASH_COUNT", "[0.05]", "400"),
        ("MINHASH_ERROR", "[400]", "0.05"),
        ("BIT_NEGATE", "[10, 8]", "245"),
        ("BIT_TEST", "[8, 3]", "true"),
        ("BIT_SHIFT_LEFT", "[2, 5, 16]", "64"),
        ("BIT_SHIFT_RIGHT", "[33, 1, 16]", "16"),
        ("BIT_CONSTRUCT", "[[1,2,3]]", "14"),
        ("BIT_DECONSTRUCT", "[14]", "[1,2,3]"),
        ("BIT_TO_STRING", "[7, 4]", r#""0111""#),
        ("BIT_FROM_STRING", r#"["0111"]"#, "7"),
        ("BIT_XOR", "[[255, null, 257]]", "510"),
        ("GEO_POINT", "[1, 2]", r#"{"type":"Point","coordinates":[1,2]}"#),
        (
            "GEO_POLYGON",
            "[[[0,0],[7.5,2.5],[0,5],[0,0]]]",
            r#"{"type":"Polygon","coordinates":[[[0,0],[7.5,2.5],[0,5],[0,0]]]}"#,
        ),
        ("IS_IN_POLYGON", "[[[0,0],[0,10],[10,10],[10,0]], 5, 5]", "true"),
        ("IS_IN_POLYGON", "[[[0,0],[0,10],[10,10],[10,0]], [5, 15]]", "false"),
    ]);
    let metres = |name: &str, arguments: &str| -> f64 {
        let (value, _) = call(name, arguments);
        value.parse::<f64>().expect("a number").round()
    };
    assert_eq!(metres("DISTANCE", "[52.5163, 13.3777, 50.9322, 6.94]"), 476_919.0);
    assert_eq!(metres("GEO_DISTANCE", "[[13.3777, 52.5163], [6.94, 50.9322]]"), 476_919.0);
    assert_eq!(metres("GEO_DISTANCE", r#"[[0, 0], [0, 90], "wgs84"]"#), 10_001_966.0);
    let (value, warnings) = call("GEO_POLYGON", "[[[1,2],[3,4]]]");
    let text = "in function 'GEO_POLYGON()': a Polygon needs at least three positions";
    assert_eq!((&*value, warnings), ("null", vec![(1542, text.to_owned())]));
}

#[test]
fn wrong_types_are_null_and_a_warning() {
    for (name, arguments, code, text) in [
        ("FIRST", "[1]", 1563, "in function 'FIRST()': array expected"),
        ("CONTAINS_ARRAY", "[1, 1]", 1563, "in function 'POSITION()': array expected"),
        ("AVG", r#"[["a"]]"#, 1563, "in function 'AVERAGE()': array expected"),
        ("APPEND", "[1, 2]", 1542, "invalid argument type in call to function 'APPEND()'"),
        ("MERGE", "[1]", 1542, "invalid argument type in call to function 'MERGE()'"),
        ("KEYS", "[1]", 1542, "invalid argument type in call to function 'ATTRIBUTES()'"),
        ("MEDIAN", r#"[["a"]]"#, 1561, "in function 'MEDIAN()': invalid arithmetic value"),
        ("DATE_YEAR", r#"["2020-13-01"]"#, 1572, "in function 'DATE_YEAR()': invalid date value"),
        ("DATE_YEAR", "[true]", 1542, "invalid argument type in call to function 'DATE_YEAR()'"),
        ("REGEX_TEST", r#"["a", "("]"#, 1543, "in function 'REGEX_TEST()': invalid regex value"),
        (
            "COSINE_SIMILARITY",
            "[[0],[1]]",
            1561,
            "in function 'COSINE_SIMILARITY()': invalid arithmetic value",
        ),
        ("DECAY_EXP", "[1,2,0,0,0.5]", 1504, "in function 'DECAY_EXP()': number out of range"),
        (
            "JSON_PARSE",
            r#"["{"]"#,
            1542,
            "invalid argument type in call to function 'JSON_PARSE()'",
        ),
        ("WARN", r#"[false, "why"]"#, 1594, "why"),
    ] {
        let (value, warnings) = call(name, arguments);
        assert_eq!(warnings, [(code, text.to_owned())], "{name}{arguments}");
        assert!(matches!(value.as_str(), "null" | "false"), "{name}{arguments}");
    }
}

#[test]
fn some_wrong_arguments_end_the_query() {
    for (name, arguments, code) in [
        ("REPLACE_NTH", "[[1], 3, 2]", 1542),
        ("RANDOM_TOKEN", "[-1]", 1542),
        ("CALL", "[1]", 1542),
        ("CALL", r#"["SUBSTRING", 1]"#, 1541),
        ("CALL", r#"["NOTHING"]"#, 1540),
        ("ASSERT", r#"[false, "why"]"#, 1593),
        ("FAIL", r#"["why"]"#, 1569),
        ("DATE_HOUR", r#"["2020-01-01", "Mars/Base"]"#, 4),
        ("DATE_LOCALTOUTC", r#"["2023-03-26T02:30:00", "Europe/Berlin"]"#, 4),
    ] {
        let error = run(name, arguments).0.expect_err(name);
        assert_eq!(error.code.num(), code, "{name}{arguments}");
    }
}

/// Checks calls that return a value without a warning.
fn answer(rows: &[(&str, &str, &str)]) {
    for (name, arguments, expected) in rows {
        let (value, warnings) = call(name, arguments);
        assert_eq!(value, *expected, "{name}{arguments}");
        assert_eq!(warnings, [], "{name}{arguments}");
    }
}

fn call(name: &str, arguments: &str) -> (String, Vec<(u32, String)>) {
    let (value, warnings) = run(name, arguments);
    (value.expect(name).to_json(), warnings)
}

fn run(name: &str, arguments: &str) -> (Result<Value>, Vec<(u32, String)>) {
    let entry = function(name).expect(name);
    let arguments = parse(arguments.as_bytes()).expect(arguments);
    let mut warnings = Warnings::default();
    let mut call = Call { name: entry.name, warnings: &mut warnings };
    let value = (entry.run)(&mut call, arguments.as_array().expect("a list"));
    (value, warnings.kept.into_iter().map(|(code, text)| (code.num(), text)).collect())
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
