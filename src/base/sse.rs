//! Parses server-sent events from a stream of bytes.

/// A parser that receives the bytes of a stream and returns the data of complete events. WHATWG
/// HTML, "Server-sent events", defines the format: each line contains one field, and an empty line
/// ends an event.
#[derive(Debug, Default)]
pub struct Events {
    /// Bytes of the last line, whose end has not arrived yet.
    rest: Vec<u8>,
    /// Data lines of the event that is not complete yet.
    data: Vec<String>,
}

impl Events {
    /// Adds bytes; returns the data of the events that these bytes completed, oldest first. The
    /// caller of the parser limits the number of bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut whole = Vec::new();
        self.rest.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(length) = self.rest[from..].iter().position(|b| *b == b'\n') {
            let line = self.rest[from..from + length].to_vec();
            from += length + 1;
            whole.extend(self.line(&line));
        }
        self.rest.drain(..from);
        whole
    }

    /// Ends the stream: also returns a last event without a final empty line, because some servers
    /// omit this line.
    pub fn end(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.line(&rest);
        }
        self.event()
    }

    fn line(&mut self, line: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        if text.is_empty() {
            return self.event();
        }
        // Comment lines, which begin with a colon, and fields other than `data` are ignored.
        if let Some(data) = text.strip_prefix("data:") {
            self.data.push(data.strip_prefix(' ').unwrap_or(data).to_owned());
        }
        None
    }

    fn event(&mut self) -> Option<String> {
        if self.data.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.data).join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_their_bytes_come() {
        let text =
            ": ping\r\n\r\ndata: {\"a\":1}\r\n\r\nevent: x\ndata: one\ndata:two ä\n\ndata: [DONE]";
        let expected = ["{\"a\":1}", "one\ntwo ä", "[DONE]"];
        for step in [1, 2, 3, 7, 1000] {
            let mut events = Events::default();
            let mut found: Vec<String> =
                text.as_bytes().chunks(step).flat_map(|bytes| events.push(bytes)).collect();
            found.extend(events.end());
            assert_eq!(found, expected, "{step}");
        }
        assert_eq!(Events::default().end(), None);
    }
}
