//! A build without the Cargo feature `conformance` reports that feature's functions as unknown, and
//! its other operations as not implemented.

use super::wire::Server;

#[test]
fn parts_of_the_feature_are_refused() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"v"} -> 200
        POST /_api/collection {"name":"e","type":3} -> 200
        POST /_api/cursor {"query":"RETURN GEO_POINT(1, 2)"} -> 400/1540
        POST /_api/cursor {"query":"RETURN MINHASH_MATCH('a', 'b', 1, 'c')"} -> 400/1540
        POST /_api/cursor {"query":"RETURN CALL(CONCAT('M', 'D5'), 'a')"} -> 400/1540
        POST /_api/cursor {"query":"FOR i IN [1] COLLECT AGGREGATE b = BIT_AND(i) RETURN b"} -> 400/1540
        POST /_api/cursor {"query":"FOR i IN [1] WINDOW {preceding: 1} AGGREGATE s = SUM(i) RETURN s"} -> 501/9
        POST /_api/cursor {"query":"FOR v IN OUTBOUND SHORTEST_PATH 'v/a' TO 'v/b' e RETURN v"} -> 501/9
        POST /_api/collection {"name":"c","computedValues":[]} -> 200
        POST /_api/collection {"name":"d","computedValues":[{"name":"a","expression":"RETURN 1","overwrite":true}]} -> 501/9
        POST /_api/import?collection=v&type=list [] -> 501/9
        GET /_api/job/done -> 501/9
        GET /_api/query/current -> 501/9
        GET /_api/query/rules -> 200
        GET /_api/query-plan-cache -> 501/9
        GET /_admin/echo -> 501/9
        POST /_api/analyzer {"name":"five","type":"minhash","properties":{"analyzer":{"type":"identity"},"numHashes":5}} -> 201
        POST /_api/cursor {"query":"RETURN TOKENS('a', 'five')"} -> 501/9
        "#,
    );
    let mut later = server.root().with("x-arango-async", "store");
    assert_eq!(later.get("/_api/version").verdict(), "501/9");
}
