//! Tests which raw bytes and unusual paths a proxy lets through to the engine.

use std::collections::BTreeSet;
use std::io::Write as _;

use super::{AT_ONCE, Stage};
use crate::bad_input::{answered, both_ways};
use crate::chance::Chance;
use crate::home::{Home, Process, Tuning};
use crate::standin::{Manner, StandIn, proxy, raw};

/// Starts a fake database, and a proxy of each mode in front of it.
async fn before_a_stand_in(manner: Manner, tuning: &Tuning) -> (Home, StandIn, [Process; 2]) {
    let home = Home::new();
    let stand_in = StandIn::start(&home.path("db.sock"), manner);
    let reads = proxy(&home, "ro", "ro.sock", "db.sock", tuning).await;
    let writes = proxy(&home, "rw", "rw.sock", "db.sock", tuning).await;
    (home, stand_in, [reads, writes])
}

#[tokio::test(flavor = "multi_thread")]
async fn no_bytes_slip_through_beside_a_request() {
    let (home, stand_in, _proxies) = before_a_stand_in(AT_ONCE, &Tuning::default()).await;
    let hidden = "DELETE /_api/collection/messages HTTP/1.1\r\nhost: x\r\n\r\n";
    let long = "x".repeat(100_000);
    let heads = [
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, identity\r\n\r\n".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ncontent-length: 5\r\n\r\nabc".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length: +3\r\n\r\nabc".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length: 3,3\r\n\r\nabc".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length : 3\r\n\r\nabc".into(),
        "POST /_api/cursor HTTP/1.1\r\nhost: x\r\nx-a: b\r\n content-length: 3\r\n\r\nabc".into(),
        "GET /_api/version HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc".into(),
        "GET /_api/version HTTP/1.0\r\nhost: x\r\n\r\n".into(),
        "GET http://db/_api/version HTTP/1.1\r\nhost: x\r\n\r\n".into(),
        "CONNECT db:80 HTTP/1.1\r\nhost: x\r\n\r\n".into(),
        "OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n".into(),
        "GET /_api/version HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n".into(),
        "GET /_api/%76ersion HTTP/1.1\r\nhost: x\r\n\r\n".into(),
        "GET /_api/../_api/version HTTP/1.1\r\nhost: x\r\n\r\n".into(),
        "GET //_api/version HTTP/1.1\r\nhost: x\r\n\r\n".into(),
        "GET /_api/version/ HTTP/1.1\r\nhost: x\r\n\r\n".into(),
        "VST/1.0\r\n\r\n".into(),
        format!("GET /_api/version HTTP/1.1\r\nhost: x\r\nx-a: {long}\r\n\r\n"),
        format!("GET /_api/{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
    ];
    for socket in ["ro.sock", "rw.sock"] {
        for head in &heads {
            let answer = raw(&home.path(socket), format!("{head}{hidden}").as_bytes()).await;
            let status: u16 = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(400);
            let shown = &head[..head.len().min(200)];
            assert!((400..500).contains(&status), "{socket}: {shown}: {answer}");
            assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{socket}: {shown}: {answer}");
        }
        assert_eq!(stand_in.seen(), Vec::<String>::new(), "{socket}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_reaches_who_still_sends_and_what_comes_then_is_no_request() {
    let stage = Stage::new().await;
    let body = "GET /_api/version HTTP/1.1\r\nhost: x\r\n\r\n".repeat(30_000);
    for path in ["/_api/document/messages", "/_api/no/such/path"] {
        let (mut to, mut from) = both_ways(&stage.home.path("ro.sock"));
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        to.write_all(head.as_bytes()).expect("the head");
        assert_eq!(answered(&mut from), Some(403), "{path}");
        to.write_all(body.as_bytes()).expect("the body behind its answer");
        assert_eq!(answered(&mut from), None, "the connection ends with a refusal");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_is_written_anew_with_the_proxys_own_credentials() {
    let own = Tuning {
        environment: vec![
            ("ARANGO_USER".into(), "proxy".into()),
            ("ARANGO_PASSWORD".into(), "own".into()),
            ("ARANGO_INDEX_PASSWORD".into(), "defines".into()),
        ],
        ..Tuning::default()
    };
    let (home, stand_in, _proxies) = before_a_stand_in(AT_ONCE, &own).await;
    let headers = [
        ("authorization", "Basic c2VjcmV0OnNlY3JldA=="),
        ("cookie", "session=secret"),
        ("connection", "keep-alive, x-secret"),
        ("x-secret", "secret"),
        ("te", "trailers"),
        ("accept", "application/x-velocypack"),
        ("content-type", "application/json"),
    ];
    let body = r#"{"query":"RETURN 1"}"#;
    for socket in ["ro.sock", "rw.sock"] {
        let wire = home.wire(socket);
        let answer = wire.call("POST", "/_db/vctx/_api/cursor", &headers, body).await;
        assert_eq!((answer.status, answer.text.as_str()), (200, "{}"));
        assert!(answer.headers.contains_key("x-own") && !answer.headers.contains_key("set-cookie"));
        let index = "/_db/vctx/_api/index?collection=messages";
        wire.call("GET", index, &[("authorization", "Bearer secret")], "").await.ok();
        wire.call("GET", "/_db/vctx/_api/version", &[], "").await.ok();
    }
    let mut seen = stand_in.seen();
    // The proxy uses one user to create and drop indexes, and another to write documents.
    let wire = home.wire("rw.sock");
    let body_of_index = r#"{"type":"vector"}"#;
    wire.call("POST", "/_db/vctx/_api/index?collection=c", &headers, body_of_index).await;
    wire.call("DELETE", "/_db/vctx/_api/index/c/7", &headers[..1], "").await;
    let defining = stand_in.seen().split_off(seen.len());
    assert_eq!(defining.len(), 2, "{defining:?}");
    // `vctx_index:defines` in Base64.
    let other = "authorization: Basic dmN0eF9pbmRleDpkZWZpbmVz\r\n";
    assert!(defining.iter().all(|request| request.contains(other)), "{defining:?}");
    let basic = "authorization: Basic cHJveHk6b3du\r\n";
    // The proxy for reads adds limits of memory and run time to the query.
    let limited = r#"{"memoryLimit":268435456,"options":{"maxRuntime":60.0},"query":"RETURN 1"}"#;
    for (three, body) in seen.chunks(3).zip([limited, body]) {
        assert!(three[0].starts_with("POST /_db/vctx/_api/cursor HTTP/1.1\r\n"), "{}", three[0]);
        assert!(three[0].contains(basic) && three[0].ends_with(body), "{}", three[0]);
        assert!(three[1].starts_with("GET /_db/vctx/_api/index?collection=messages HTTP/1.1\r\n"));
        assert!(three[1].contains(basic) && !three[2].contains("authorization"), "{three:?}");
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
    seen.extend(defining);
    for request in &seen {
        assert!(!request.contains("secret") && !request.contains("c2VjcmV0"), "{request}");
        let head = request.split("\r\n\r\n").next().expect("a head");
        let names: BTreeSet<&str> =
            head.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
        let known = ["authorization", "content-length", "content-type", "host"];
        assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_path_is_made_up_only_what_is_named_comes_through() {
    let (home, stand_in, _proxies) = before_a_stand_in(AT_ONCE, &Tuning::default()).await;
    let mut chance = Chance::new(29);
    let pieces = [
        "_api",
        "_admin",
        "_db",
        "vctx",
        "/truncate",
        "/",
        "//",
        "/user",
        "..",
        "/..",
        "/./",
        ".",
        "%2e%2e",
        "%2f",
        "%00",
        ";",
        "\\",
        "_API",
        "shutdown",
        "12",
        "?",
        "&",
        "=",
        "collection=messages",
        "details=true",
        "#",
        "*",
        "~",
        "\u{e4}",
        "http://x",
    ];
    let whole = [
        "/",
        "/_api/version",
        "/_api/version?details=true",
        "/_api/collection/messages/count",
        "/_api/collection/messages/truncate",
        "/_api/index?collection=messages",
        "/_api/cursor/12",
        "/_api/document/messages/12",
        "/_admin/shutdown",
    ];
    let methods = ["GET", "POST", "PUT", "DELETE", "PATCH"];
    let mut passed = 0;
    for _ in 0..1_500 {
        let mut target = String::from(if chance.below(3) > 0 { "/_db/vctx" } else { "" });
        let begin: &&str = chance.one_of(&whole);
        target += begin;
        for _ in 0..chance.below(3) {
            let at = usize::try_from(chance.below(target.len() as u64)).expect("an index");
            if target.is_char_boundary(at) {
                let piece: &&str = chance.one_of(&pieces);
                target.insert_str(at, piece);
            }
        }
        let method = chance.one_of(&methods);
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        let answer = raw(&home.path("ro.sock"), request.as_bytes()).await;
        passed += usize::from(answer.starts_with("HTTP/1.1 200"));
    }
    let seen = stand_in.seen();
    assert_eq!(seen.len(), passed, "each that passed was answered by the stand-in");
    assert!(passed > 50, "{passed} of 1500");
    for request in seen {
        let line = request.lines().next().expect("a line").to_owned();
        let path = line.replace("/_db/vctx", "");
        let known = [
            "GET / ",
            "GET /_api/version",
            "GET /_api/collection",
            "GET /_api/index",
            "POST /_api/cursor/",
            "PUT /_api/cursor/",
            "DELETE /_api/cursor/",
        ];
        let (_, cursor) = path.split_once("/_api/cursor/").unwrap_or(("", "1 "));
        let id = cursor.split(' ').next().expect("a part");
        assert!(id.bytes().all(|b| b.is_ascii_digit() || b == b'/'), "{line}");
        assert!(known.iter().any(|start| path.starts_with(start)), "{line}");
        assert!(!line.contains(['%', ';', '\\', '#']) && !line.contains("//"), "{line}");
    }
}
