//! Tests which agent a request names: by its path, by its model name, or by a header.

use vctx_core::openai::RequestedAgent;

#[test]
fn a_path_comes_before_the_name_of_a_model_and_that_before_a_header() {
    for (path, model, header, agent) in [
        (Some("a"), "vctx/b", Some("c"), Some("a")),
        (None, "vctx/b", Some("c"), Some("b")),
        (None, "gpt", Some("c"), Some("c")),
        (None, "gpt", None, None),
    ] {
        let named = RequestedAgent::of(path, model, header).unwrap();
        assert_eq!(named.agent.as_deref(), agent, "{path:?} {model} {header:?}");
    }
    assert!(RequestedAgent::of(None, "vctx/a b", None).is_err());
    assert!(RequestedAgent::of(None, "vctx/", None).is_err());
}
