//! Tests how a query is split into words and phrases.

use vctx_core::error::Code;
use vctx_core::limits::QUERY_BYTES_MAX;
use vctx_core::search::RecallQuery;

#[test]
fn quoted_parts_are_phrases_and_so_are_several_words() {
    for (text, words, phrases) in [
        ("tea", "tea", vec![]),
        ("  black   tea ", "black tea", vec!["black tea"]),
        ("\"black tea\"", "black tea", vec!["black tea"]),
        ("milk \"black tea\" sugar", "milk black tea sugar", vec!["black tea"]),
        ("“black tea” and \"two cups\"", "black tea and two cups", vec!["black tea", "two cups"]),
        ("black \"tea", "black tea", vec!["black tea"]),
        ("\"!\" tea", "! tea", vec![]),
        ("茶", "茶", vec![]),
    ] {
        let query = RecallQuery::parse(text).unwrap();
        assert_eq!(
            (query.words.as_str(), query.phrases),
            (words, phrases.iter().map(|p| (*p).to_owned()).collect()),
            "{text}"
        );
    }
}

#[test]
fn what_holds_no_word_is_refused() {
    for text in
        ["", " ", "?!", "\"\"", "\" \" …", &"a".repeat(QUERY_BYTES_MAX + 1), "\"a\" \"b\" \"c\""]
    {
        assert_eq!(RecallQuery::parse(text).unwrap_err().code, Code::InvalidArgument, "{text}");
    }
}
