//! A blocking HTTP connection over a Unix socket which adds as little overhead as possible.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Fault;

/// Default maximum wait for an answer; the server's own time limits are shorter.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// Maximum size of an answer, in bytes; most answers have a few thousand bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Size of one read, in bytes.
const READ_BYTES: usize = 16 << 10;

/// A connection.
pub(crate) struct Client {
    stream: UnixStream,
    sent: Vec<u8>,
    read: Vec<u8>,
}

/// An answer.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Client {
    /// Connects to the socket, with the default maximum wait for an answer.
    pub(crate) fn connect(socket: &Path) -> Result<Self, Fault> {
        Self::connect_patient(socket, ANSWER_WAIT)
    }

    /// Connects to the socket, with a longer wait for the answers to slow calls.
    pub(crate) fn connect_patient(socket: &Path, wait: Duration) -> Result<Self, Fault> {
        let stream =
            UnixStream::connect(socket).map_err(|e| format!("{}: {e}", socket.display()))?;
        stream.set_read_timeout(Some(wait))?;
        stream.set_write_timeout(Some(wait))?;
        Ok(Self { stream, sent: Vec::new(), read: Vec::new() })
    }

    /// Sends a request and reads the whole answer. `headers` contains header lines, each with a
    /// line end.
    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Answer<'_>, Fault> {
        self.sent.clear();
        write!(
            self.sent,
            "{method} {path} HTTP/1.1\r\nhost: vctx\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        )?;
        self.sent.extend_from_slice(body);
        self.stream.write_all(&self.sent)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer<'_>, Fault> {
        self.read.clear();
        let mut head = None;
        loop {
            if head.is_none() {
                head = head_of(&self.read)?;
            }
            if let Some(Head { status, starts, length }) = head
                && self.read.len() >= starts + length
            {
                return Ok(Answer { status, body: &self.read[starts..starts + length] });
            }
            if self.read.len() > ANSWER_BYTES_MAX {
                return Err(format!("an answer of more than {ANSWER_BYTES_MAX} bytes").into());
            }
            let filled = self.read.len();
            self.read.resize(filled + READ_BYTES, 0);
            let count = self.stream.read(&mut self.read[filled..])?;
            self.read.truncate(filled + count);
            if count == 0 {
                return Err("the server closed the connection before the end of an answer".into());
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Offset of the body in the received bytes.
    starts: usize,
    /// Length of the answer's body in bytes.
    length: usize,
}

/// Returns the status of an answer and the length of its body; `None` until the answer's head is
/// complete.
fn head_of(bytes: &[u8]) -> Result<Option<Head>, Fault> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| format!("the answer is not HTTP: {first}"))?;
    let named = lines.filter_map(|line| line.split_once(':'));
    let mut lengths = named.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().and_then(|(_, value)| value.trim().parse().ok());
    let length = length.ok_or("an answer without content-length")?;
    Ok(Some(Head { status, starts: end + 4, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_where_the_body_lies() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nx: y\r\n\r\nhello";
        let head = head_of(text).unwrap();
        assert_eq!(head, Some(Head { status: 201, starts: 49, length: 5 }));
        assert_eq!(&text[49..54], b"hello");
        assert_eq!(head_of(b"HTTP/1.1 200 OK\r\nconte").unwrap(), None);
        assert!(head_of(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(head_of(b"220 ready\r\ncontent-length: x\r\n\r\n").is_err());
    }
}
