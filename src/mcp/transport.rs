//! Reads MCP messages as lines of JSON, and answers a line that is not JSON or is too long.
//!
//! The transport of the library rmcp drops such a line without an answer, so the client would wait
//! forever.

use std::io;
use std::pin::Pin;

use rmcp::model::ErrorData;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, JsonRpcMessageCodec, JsonRpcMessageCodecError};
use serde_json::error::Category;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Decoder as _;

use vctx_core::limits::MCP_LINE_BYTES_MAX;

/// The two halves of a connection with an MCP client.
pub(super) struct Lines<R, W: AsyncWrite> {
    read: BufReader<R>,
    /// The line that is being read; a cancelled call of `receive` leaves its beginning here.
    line: Vec<u8>,
    /// Whether the rest of a line that is too long is being skipped.
    skips: bool,
    codec: JsonRpcMessageCodec<RxJsonRpcMessage<RoleServer>>,
    /// Writes the answers; its reading half is empty.
    write: AsyncRwTransport<RoleServer, Empty, W>,
    /// The answer to a wrong line, until it is written.
    answer: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new((read, write): (R, W)) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            skips: false,
            codec: JsonRpcMessageCodec::new(),
            write: AsyncRwTransport::new(tokio::io::empty(), write),
            answer: None,
        }
    }

    /// Reads the next line into `self.line`; returns whether the line is short enough, or `None` if
    /// the client has disconnected. If the call is cancelled, the next call continues the line.
    async fn next_line(&mut self) -> Option<bool> {
        loop {
            let available = match self.read.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    tracing::info!(%error, "a client broke off");
                    return None;
                }
            };
            if available.is_empty() {
                return None;
            }
            let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(available.len());
            self.skips |= self.line.len() + taken > MCP_LINE_BYTES_MAX;
            if self.skips {
                self.line.clear();
            } else {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.read.consume(taken);
            if end.is_some() {
                return Some(!std::mem::take(&mut self.skips));
            }
        }
    }

    /// Parses the line. Returns `None` for a blank line, and for a notification that this version
    /// of the protocol does not know.
    fn parse(&mut self) -> Option<Result<RxJsonRpcMessage<RoleServer>, ErrorData>> {
        let line = std::mem::take(&mut self.line);
        if line.trim_ascii().is_empty() {
            return None;
        }
        match self.codec.decode(&mut BytesMut::from(line.as_slice())) {
            Ok(message) => message.map(Ok),
            Err(JsonRpcMessageCodecError::Serde(error)) if error.classify() == Category::Data => {
                Some(Err(ErrorData::invalid_request("this is no message of JSON-RPC 2.0", None)))
            }
            // The answer has a fixed text, because the error's own text may contain parts of the
            // message.
            Err(_) => {
                let text = "a message must be one line of JSON in UTF-8, at most 128 levels deep";
                Some(Err(ErrorData::parse_error(text, None)))
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.write.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answer) = &mut self.answer {
                let written = answer.await;
                self.answer = None;
                written.ok()?;
            }
            let parsed = match self.next_line().await? {
                true => self.parse(),
                false => {
                    let text = format!("a message may have {MCP_LINE_BYTES_MAX} bytes at most");
                    Some(Err(ErrorData::parse_error(text, None)))
                }
            };
            match parsed {
                None => {}
                Some(Ok(message)) => return Some(message),
                // JSON-RPC 2.0 §5: the id of a message that cannot be read is null.
                Some(Err(error)) => {
                    let answer = TxJsonRpcMessage::<RoleServer>::error(error, None);
                    self.answer = Some(Box::pin(self.write.send(answer)));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write.close().await
    }
}
