//! Tests the socket guards: which hosts pass `uds.sh`, and which users a socket may admit.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use vctx::checks::sentences::{self as said, Sentence};

use super::{GOOD, HEADER, Host, Running, SSHD, check, find};

#[test]
fn uds_knows_good_hosts_from_bad_ones() {
    let arangod = "COMMAND PID USER FD TYPE DEVICE SIZE/OFF NODE NAME\narangod 4194301 db 15u unix 0x0 0t0 99 SOCKET type=STREAM (LISTEN)\n";
    let vctx = &arangod.replace("arangod 4", "vctx 4");
    let embedded = &arangod.replace("arangod 4", "arango-em 4");
    let stranger = &arangod.replace("arangod 4", "nginx 4");
    let elsewhere = &arangod.replace("SOCKET", "SOCKET.old");
    let config = "[server]\nendpoint = unix://SOCKET\n";
    let listen = |address: &str, owner: &str| {
        format!("{HEADER}{SSHD}LISTEN 0 128 {address} 0.0.0.0:* {owner}\n")
    };
    let owned =
        |address: &str, name: &str| listen(address, &format!("users:((\"{name}\",pid=7,fd=9))"));
    let quiet = format!("{HEADER}{SSHD}");
    let single = ["--profile", "single"].as_slice();
    let in_process = ["--profile", "embedded"].as_slice();
    let cluster = ["--profile", "cluster", "--allow", "10.0.0.1:8530"].as_slice();
    let two = "[server]\nendpoint = unix://SOCKET\nendpoint = tcp://10.0.0.1:8530\n";
    #[rustfmt::skip]
    let table: Vec<(&str, &[&str], String, &str, &str, Result<(), Sentence>)> = vec![
        ("embedded with a configuration of comments", in_process, quiet.clone(), vctx, "# nothing\n\n; nothing\n", GOOD),
        ("no listener at all", single, HEADER.to_owned(), arangod, config, GOOD),
        ("listeners of others", single, quiet.clone(), arangod, config, GOOD),
        ("vctx holds the socket", in_process, quiet.clone(), vctx, "", GOOD),
        ("arango-embedded holds the socket", in_process, quiet.clone(), embedded, "", GOOD),
        ("embedded with its endpoint configured", in_process, quiet.clone(), vctx, config, GOOD),
        ("dotted key, comment before it", single, quiet.clone(), arangod, "# endpoint = tcp://0.0.0.0:8529\nserver.endpoint=unix://SOCKET\n", GOOD),
        ("a start line", single, quiet.clone(), arangod, "arangod --server.endpoint unix://SOCKET --log.level info", GOOD),
        ("a start line with an equals sign", single, quiet.clone(), arangod, "arangod --server.endpoint='unix://SOCKET'", GOOD),
        ("cluster-internal listener that is allowed", cluster, owned("10.0.0.1:8530", "arangod"), arangod, two, GOOD),
        ("another cluster listener", cluster, owned("10.0.0.1:8531", "arangod"), arangod, two, Err(said::TCP_LISTENER)),
        ("a cluster without its local socket", cluster, quiet.clone(), stranger, two, Err(said::SOCKET_NOT_HELD)),
        ("a cluster whose socket is not configured", cluster, quiet.clone(), arangod, "[server]\nendpoint = tcp://10.0.0.1:8530\n", Err(said::ENDPOINT)),
        ("port 8529, owner hidden", single, listen("127.0.0.1:8529", ""), arangod, config, Err(said::TCP_LISTENER)),
        ("another port of arangod", single, owned("127.0.0.1:9999", "arangod"), arangod, config, Err(said::TCP_LISTENER)),
        ("a port of vctx", in_process, owned("127.0.0.1:9999", "vctx"), vctx, "", Err(said::TCP_LISTENER)),
        ("a port of arango-embedded", in_process, owned("[::1]:9999", "arango-embedded"), embedded, "", Err(said::TCP_LISTENER)),
        ("another port, owner hidden", single, listen("127.0.0.1:9999", ""), arangod, config, Err(said::OWNER_UNSEEN)),
        ("another port, owner hidden, embedded", in_process, listen("127.0.0.1:9999", ""), vctx, "", Err(said::OWNER_UNSEEN)),
        ("ss prints nothing", single, String::new(), arangod, config, Err(said::TOOL_SILENT)),
        ("lsof prints nothing", single, quiet.clone(), "", config, Err(said::TOOL_SILENT)),
        ("a stranger holds the socket", single, quiet.clone(), stranger, config, Err(said::SOCKET_NOT_HELD)),
        ("arangod in the embedded profile", in_process, quiet.clone(), arangod, "", Err(said::SOCKET_NOT_HELD)),
        ("the socket is held under another path", single, quiet.clone(), elsewhere, config, Err(said::SOCKET_NOT_HELD)),
        ("tcp beside unix", single, quiet.clone(), arangod, two, Err(said::ENDPOINT)),
        ("ssl alone", single, quiet.clone(), arangod, "[server]\nendpoint = ssl://0.0.0.0:8530\n", Err(said::ENDPOINT)),
        ("http", single, quiet.clone(), arangod, "[server]\nendpoint = unix://SOCKET\nendpoint = http://localhost:9000\n", Err(said::ENDPOINT)),
        ("tcp on the start line", single, quiet.clone(), arangod, "arangod --server.endpoint unix://SOCKET --server.endpoint tcp://[::]:9000", Err(said::ENDPOINT)),
        ("another socket", single, quiet.clone(), arangod, "[server]\nendpoint = unix:///elsewhere.sock\n", Err(said::ENDPOINT)),
        ("only a comment names the socket", single, quiet.clone(), arangod, "[server]\n; endpoint = unix://SOCKET\n", Err(said::ENDPOINT)),
        ("an included file may hide an endpoint", single, quiet.clone(), arangod, "[server]\nendpoint = unix://SOCKET\n@include tcp\n", Err(said::ENDPOINT)),
        ("an empty configuration", single, quiet.clone(), arangod, "\n", Err(said::ENDPOINT)),
    ];
    for (case, profile, listeners, holders, config, expected) in table {
        let host = Host::new();
        host.fake("ss", &listeners, 0);
        host.fake("lsof", &holders.replace("SOCKET", &host.socket()), 0);
        let mut arguments = profile.to_vec();
        let (socket, file) = (host.socket(), host.file("arangod.conf", config));
        let line = config.replace("SOCKET", &socket);
        arguments.extend(["--socket", &socket]);
        match config.split(' ').next() {
            Some("arangod") => arguments.extend(["--command", &line]),
            Some("") => {}
            _ => arguments.extend(["--config", &file]),
        }
        check(case, host.run("uds.sh", &arguments), expected);
    }
}

#[test]
fn a_listener_without_owner_is_passed_over_only_beside_an_engine_we_may_look_into() {
    let host = Host::new();
    let program = host.root.path().join("vctx");
    fs::copy(find("sleep"), &program).expect("a copy that runs under the engine's name");
    // `Running` kills the child process also after a failed case. Otherwise the child would keep
    // the test's output open, and the mutation test would wait for the end of this output.
    let engine = Running(Command::new(&program).arg("60").spawn().expect("the copy starts"));
    let socket = host.socket();
    host.fake("ss", &format!("{HEADER}LISTEN 0 128 0.0.0.0:2024 0.0.0.0:*\n"), 0);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", engine.0.id()), 0);
    let embedded = ["--profile", "embedded", "--socket", &socket];
    let beside_engine = host.run("uds.sh", &embedded);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", std::process::id()), 0);
    let beside_another = host.run("uds.sh", &embedded);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", engine.0.id()), 0);
    fs::remove_file(host.bin().join("ls")).expect("the link");
    host.fake("ls", "", 1);
    let shut = host.run("uds.sh", &embedded);
    drop(engine);
    check("the engine's process is open to us", beside_engine, GOOD);
    check("we may not look into it", shut, Err(said::OWNER_UNSEEN));
    check("the process has another name", beside_another, Err(said::OWNER_UNSEEN));
}

#[test]
fn uds_fails_closed() {
    let host = Host::new();
    let socket = host.socket();
    let embedded = ["--profile", "embedded", "--socket", &socket];
    check("neither ss nor lsof", host.run("uds.sh", &embedded), Err(said::TOOL_MISSING));
    host.fake("ss", HEADER, 0);
    check("no lsof", host.run("uds.sh", &embedded), Err(said::TOOL_MISSING));
    host.fake("lsof", &format!("vctx 4194301 db 15u unix 0x0 0t0 99 {socket}\n"), 1);
    check("lsof with a warning", host.run("uds.sh", &embedded), GOOD);
    let gone = format!("{socket}.gone");
    check(
        "no such socket",
        host.run("uds.sh", &["--profile", "embedded", "--socket", &gone]),
        Err(said::SOCKET_NOT_HELD),
    );
    let plain = host.file("plain", "");
    check(
        "a plain file",
        host.run("uds.sh", &["--profile", "embedded", "--socket", &plain]),
        Err(said::SOCKET_NOT_HELD),
    );
    let unreadable = [&embedded[..], &["--config", &gone]].concat();
    check("no such configuration", host.run("uds.sh", &unreadable), Err(said::UNREADABLE));
    for arguments in [
        &["--profile", "none", "--socket", &socket][..],
        &["--socket", &socket],
        &["--profile", "single"],
        &["--socket"],
        &["x", "y"],
        &["--profile", "embedded", "--socket", &socket, "--colour", "red"],
    ] {
        check(&format!("{arguments:?}"), host.run("uds.sh", arguments), Err(said::ARGUMENTS));
    }
    let conf = host.file("own.conf", "[server]\nendpoint = unix://SOCKET\n");
    let with_conf = [&embedded[..], &["--config", &conf]].concat();
    check("called without a path", host.run_as(Path::new("uds.sh"), "uds.sh", &with_conf), GOOD);
    let allow = [&embedded[..], &["--allow", "127.0.0.1:8529"]].concat();
    check("--allow outside a cluster", host.run("uds.sh", &allow), Err(said::ARGUMENTS));
    host.fake("ss", HEADER, 2);
    check("ss fails", host.run("uds.sh", &embedded), Err(said::TOOL_SILENT));
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check("no awk", host.run("uds.sh", &embedded), Err(said::TOOL_MISSING));
}

/// Returns the name of this process's group, as `stat` prints it.
fn own_group() -> String {
    let output = Command::new("id").arg("-gn").output().expect("id runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn a_socket_lets_in_its_owner_and_a_group_only_where_it_is_named() {
    let host = Host::new();
    let directory = host.root.path().join("private");
    fs::create_dir(&directory).expect("a directory");
    let socket = directory.join("s.sock");
    let bound = UnixListener::bind(&socket).expect("a socket");
    let at = socket.display().to_string();
    let user = String::from_utf8(Command::new("id").arg("-un").output().expect("id runs").stdout);
    let (user, group) = (user.expect("text").trim().to_owned(), own_group());
    let (owner, named) = (["--owner", &user], ["--group", &group]);
    let both = [owner, named].concat();
    let open = Err(said::MODES);
    #[rustfmt::skip]
    let table: &[(&str, u32, u32, &[&str], Result<(), Sentence>)] = &[
        ("private", 0o700, 0o660, &[], GOOD),
        ("private, of its owner", 0o700, 0o600, &owner, GOOD),
        ("private although a group is named", 0o700, 0o660, &named, GOOD),
        ("private, of another owner", 0o700, 0o660, &["--owner", "nobody-here"], open),
        ("private, of another group", 0o700, 0o660, &["--group", "nobody-here"], open),
        ("a named group may enter", 0o750, 0o660, &both, GOOD),
        ("a named group may pass", 0o710, 0o770, &named, GOOD),
        ("a group that is not named", 0o750, 0o660, &owner, open),
        ("a group that is not named may read", 0o740, 0o660, &[], open),
        ("another group is named", 0o750, 0o660, &["--group", "nobody-here"], open),
        ("a named group may write", 0o770, 0o660, &both, open),
        ("a named group may only write", 0o720, 0o660, &both, open),
        ("a named group may write and pass", 0o730, 0o660, &both, open),
        ("a named group may read and write", 0o760, 0o660, &both, open),
        ("a named group may only read", 0o740, 0o660, &both, open),
        ("others may enter", 0o755, 0o660, &both, open),
        ("others may pass", 0o701, 0o660, &[], open),
        ("others may connect where they cannot come", 0o700, 0o666, &[], open),
        ("others may read it", 0o750, 0o664, &both, open),
        ("sticky and open", 0o1777, 0o660, &[], open),
        ("of its group for ever", 0o2750, 0o660, &named, GOOD),
    ];
    for &(case, outside, inside, arguments, expected) in table {
        fs::set_permissions(&socket, fs::Permissions::from_mode(inside)).expect("own file");
        fs::set_permissions(&directory, fs::Permissions::from_mode(outside)).expect("own file");
        let arguments = [&["--socket", &at][..], arguments].concat();
        check(case, host.run("sockets.sh", &arguments), expected);
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("own file");
    for arguments in [
        &["--owner", &user][..],
        &[],
        &["--socket"],
        &["x", "y"],
        &["--socket", &at, "--colour", "red"],
        &["--socket", "s"],
    ] {
        check(&format!("{arguments:?}"), host.run("sockets.sh", arguments), Err(said::ARGUMENTS));
    }
    let plain = host.file("private/plain", "");
    for none in [plain, format!("{at}.gone")] {
        let come = host.run("sockets.sh", &["--socket", &none]);
        check(&none, come, Err(said::SOCKET_NOT_HELD));
    }
    drop(bound);
    fs::remove_file(host.bin().join("stat")).expect("the link");
    for (output, status) in [("700 a a\n660 a a\n", 1), ("", 0)] {
        host.fake("stat", output, status);
        let come = host.run("sockets.sh", &["--socket", &at]);
        check("stat is silent or fails", come, Err(said::TOOL_SILENT));
    }
    for output in ["700 a a\n", "700 a a\n660 a a\n660 a a\n"] {
        host.fake("stat", output, 0);
        let come = host.run("sockets.sh", &["--socket", &at]);
        check("stat says too little or too much", come, open);
    }
    // In a file mode with fewer than three digits, the missing digits are 0.
    host.fake("stat", "0 a a\n60 a a\n", 0);
    check("few digits", host.run("sockets.sh", &["--socket", &at]), GOOD);
    host.fake("stat", "70 a a\n60 a a\n", 0);
    // The socket must belong to the named group. A directory with the mode 700 may belong to any
    // group.
    let of_g = ["--socket", &at, "--group", "g"];
    for (output, expected) in
        [("750 a g\n660 a h\n", open), ("700 a h\n660 a g\n", GOOD), ("750 a g\n660 a g\n", GOOD)]
    {
        host.fake("stat", output, 0);
        check(output, host.run("sockets.sh", &of_g), expected);
    }
    host.fake("stat", "70 a a\n60 a a\n", 0);
    check("few digits, a group", host.run("sockets.sh", &["--socket", &at]), open);
    for tool in ["stat", "awk"] {
        fs::remove_file(host.bin().join(tool)).expect("the tool");
        let come = host.run("sockets.sh", &["--socket", &at]);
        check(tool, come, Err(said::TOOL_MISSING));
    }
}
