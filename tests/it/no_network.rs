//! Checks that the API contract is met without any network interface, and that no vctx process
//! opens an internet socket.

use std::process::{Command, Stdio};

use crate::contract::core_of_the_contract;
use crate::home::{Home, Tuning};
use crate::needs::left_out;
use crate::strace;
use crate::talk::Agent;

/// Environment variable that is set in the inner run of the test, which has no network interface.
const INSIDE: &str = "IT_WITHOUT_INTERFACE";

fn has_interfaces() -> bool {
    let table = std::fs::read_to_string("/proc/net/dev").expect("a list of interfaces");
    table.lines().skip(2).any(|line| line.split(':').next().is_some_and(|name| name.trim() != "lo"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_without_any_interface() {
    if std::env::var_os(INSIDE).is_some() {
        assert!(!has_interfaces(), "there is an interface after all");
        return core_of_the_contract(&Home::new()).await;
    }
    let permitted = Command::new("unshare").args(["-rn", "true"]).stderr(Stdio::null()).status();
    if !permitted.is_ok_and(|status| status.success()) {
        left_out("`unshare -rn` is not permitted here");
        return;
    }
    let myself = std::env::current_exe().expect("this program");
    let inner = Command::new("unshare")
        .arg("-rn")
        .arg(myself)
        .args(["--exact", "no_network::the_contract_holds_without_any_interface", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success(), "{said}\n{}", String::from_utf8_lossy(&inner.stderr));
    assert!(said.contains("1 passed"), "the inner test did not run: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_internet_socket_is_ever_opened() {
    if !strace::can_trace() {
        left_out("processes cannot be traced here");
        return;
    }
    let home = Home::new();
    let trace = home.path("trace");
    let calls = "trace=socket,socketpair,connect,bind,listen";
    let tuning = Tuning { under: strace::under(calls, &trace), ..Tuning::default() };
    let server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1024, "").await;
    for turn in 0..40 {
        ada.append("user", format!("Turn {turn}: {}", crate::count::words(20))).await;
    }
    home.assert_verified("vctx.sock", "ada");
    drop(home.wire("metrics.sock").get("/metrics").await);
    server.kill();
    strace::finished(&trace, server.id()).await;
    let seen = strace::read(&trace);
    let sockets: Vec<&strace::Call> =
        seen.iter().filter(|call| call.name == "socket" || call.name == "socketpair").collect();
    assert!(sockets.len() > 3, "the trace shows no sockets at all");
    for call in &seen {
        assert!(!call.arguments.contains("AF_INET"), "{call:?}");
    }
    for call in sockets {
        assert!(call.arguments.starts_with("AF_UNIX"), "{call:?}");
    }
}
