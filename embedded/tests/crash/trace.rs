//! Parses the output of `strace -f -y -xx`: one line for each system call, or two lines if another
//! thread interrupts it.

use std::collections::HashMap;

/// The `strace` filter: all system calls that change files or make them durable. The replay fails
/// at a call that it does not support.
pub(crate) const CALLS: &str = "trace=openat,open,creat,close,write,pwrite64,writev,pwritev,pwritev2,lseek,fsync,fdatasync,\
sync,syncfs,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,ftruncate,truncate,fallocate,\
dup,dup2,dup3,fcntl,copy_file_range,sendfile,splice,link,linkat,symlink,symlinkat";

/// A successful system call.
#[derive(Debug)]
pub(crate) struct Call {
    /// Line of the trace where the call began.
    pub(crate) begin: usize,
    /// Line of the trace where the call ended.
    pub(crate) end: usize,
    pub(crate) name: String,
    /// Arguments, split at the commas outside of quotes and brackets.
    pub(crate) arguments: Vec<String>,
    pub(crate) result: i64,
}

/// Returns all calls, ordered by the time of their effect. A `close` takes effect at its beginning,
/// because another thread may get the same descriptor before the `close` ends. Other calls take
/// effect at their end.
pub(crate) fn parse(text: &str) -> Vec<Call> {
    let mut unfinished: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut calls = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (pid, rest) = line.split_once(' ').expect("a line begins with the thread");
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            unfinished.insert(pid, (at, first));
        } else if rest.starts_with("<...") {
            let (_, second) = rest.split_once("resumed>").expect("a resumed call says so");
            let (begin, first) = unfinished.remove(pid).expect("a resumed call began");
            calls.extend(call(begin, at, &format!("{first}{second}")));
        } else {
            calls.extend(call(at, at, rest));
        }
    }
    calls.sort_by_key(|call: &Call| if call.name == "close" { call.begin } else { call.end });
    calls
}

/// Parses one complete system call; returns `None` if the call failed.
fn call(begin: usize, end: usize, text: &str) -> Option<Call> {
    let (head, result) =
        text.rsplit_once(" = ").unwrap_or_else(|| panic!("no result in line {end}: {text}"));
    let number =
        result.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).next().unwrap_or("");
    if number == "?" || number.is_empty() {
        return None;
    }
    let result = match number.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).unwrap(),
        None => number.parse::<i64>().unwrap_or_else(|_| panic!("result of line {end}: {text}")),
    };
    let (name, arguments) = head.split_once('(').expect("a call has arguments");
    let arguments = arguments.trim_end().strip_suffix(')').expect("arguments end");
    (result >= 0).then(|| Call {
        begin,
        end,
        name: name.into(),
        arguments: split(arguments),
        result,
    })
}

fn split(text: &str) -> Vec<String> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0i32, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'[' | b'{' | b'<' if !quoted => depth += 1,
            b']' | b'}' | b'>' if !quoted => depth -= 1,
            b',' if !quoted && depth == 0 => {
                parts.push(text[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim().to_owned());
    parts
}

/// Decodes a quoted argument, in which every byte is written as `\xNN`.
pub(crate) fn bytes(argument: &str) -> Vec<u8> {
    let inner = argument.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let inner =
        inner.unwrap_or_else(|| panic!("a whole string: {}", &argument[..argument.len().min(80)]));
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hexadecimal digit") as u8;
    inner.as_bytes().chunks(4).map(|chunk| digit(chunk[2]) << 4 | digit(chunk[3])).collect()
}

/// Returns the joined bytes of all buffers of a `writev` call.
pub(crate) fn vector(argument: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for part in argument.split("iov_base=").skip(1) {
        let end = part[1..].find('"').expect("a buffer ends") + 2;
        all.extend(bytes(&part[..end]));
    }
    all
}

/// Parses a numeric argument; a file descriptor is followed by `<path>`, which is ignored.
pub(crate) fn number(argument: &str) -> i64 {
    let digits = argument.split('<').next().unwrap_or("");
    digits.parse().unwrap_or_else(|_| {
        if digits == "AT_FDCWD" { -100 } else { panic!("a number: {argument}") }
    })
}
