//! One keep-alive connection over a Unix socket that blocks: as little as a client can cost, so that the server is what is measured.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Fault;

/// Longest wait for an answer, if not told otherwise: far above every limit of the server's own.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// Longest answer taken, in bytes: heads and bodies of these calls have a few thousand.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;

/// A connection.
pub(crate) struct Client {
    stream: UnixStream,
    sent: Vec<u8>,
    read: Vec<u8>,
}

/// What came back.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Client {
    /// Connects.
    pub(crate) fn connect(socket: &Path) -> Result<Self, Fault> {
        Self::connect_patient(socket, ANSWER_WAIT)
    }

    /// Connects, for calls that may take that long.
    pub(crate) fn connect_patient(socket: &Path, wait: Duration) -> Result<Self, Fault> {
        let stream =
            UnixStream::connect(socket).map_err(|e| format!("{}: {e}", socket.display()))?;
        stream.set_read_timeout(Some(wait))?;
        stream.set_write_timeout(Some(wait))?;
        Ok(Self { stream, sent: Vec::new(), read: Vec::new() })
    }

    /// Sends a request and takes its whole answer. `headers` are whole lines with their line ends.
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
                return Err("the server closed the connection within an answer".into());
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Where the body starts.
    starts: usize,
    /// Bytes of the body.
    length: usize,
}

/// Status and length of an answer, once its head is whole.
fn head_of(bytes: &[u8]) -> Result<Option<Head>, Fault> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| format!("not an answer in HTTP: {first}"))?;
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
