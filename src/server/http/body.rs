//! Reads request bodies within limits of length, time and memory, and decodes them to JSON objects.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};

use crate::limits::{
    BODIES_BYTES_MAX, BODY_BYTES_SMALL, BODY_ROOM_MS_MAX, BODY_VALUES_BYTES_MAX,
    BODY_VALUES_BYTES_SMALL,
};
use vctx_base::metric;
use vctx_base::room::{Room, SharedRoom};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{BODY_BYTES_MAX, BODY_DRAINED_BYTES_MAX, BODY_MS_MAX, BODY_VALUES_MAX};
use vctx_core::memory::json_weight::JsonWeight;
use vctx_core::memory::strict_json::StrictJson;

/// The room for the bodies of all listeners.
static BODIES: LazyLock<SharedRoom> = LazyLock::new(|| SharedRoom::new(BODIES_BYTES_MAX));

/// Reads a request body of at most `bytes_max` bytes, within the usual time limit. The caller keeps
/// the room as long as the bytes.
pub async fn bytes_within(body: Body, bytes_max: usize) -> Result<(Vec<u8>, Room)> {
    let read = tokio::time::timeout(Duration::from_millis(BODY_MS_MAX), limited(body, bytes_max));
    let late =
        |_| Error::new(Code::Timeout, format!("the body did not come within {BODY_MS_MAX} ms"));
    read.await.map_err(late)?
}

/// Reads a body as a JSON object. The caller keeps the room as long as the values.
pub(super) async fn object(body: Body) -> Result<(Map<String, Value>, Room)> {
    object_within(body, BODY_BYTES_MAX).await
}

/// Reads a body of at most `bytes_max` bytes as a JSON object, like `object`.
pub(super) async fn object_within(
    body: Body,
    bytes_max: usize,
) -> Result<(Map<String, Value>, Room)> {
    let (bytes, mut room) = bytes_within(body, bytes_max).await?;
    let (object, values) = held_object_of(&bytes).await?;
    // The room of the bytes remains for the copies that a call makes of its texts.
    room.take(values);
    Ok((object, room))
}

/// Decodes bytes to a JSON object; an empty body is an empty object.
pub fn object_of(bytes: &[u8]) -> Result<Map<String, Value>> {
    weighed(bytes)?;
    parsed(bytes)
}

/// Decodes bytes to a JSON object like `object_of`, with the room of its values.
pub async fn held_object_of(bytes: &[u8]) -> Result<(Map<String, Value>, Room)> {
    let weight = weighed(bytes)?;
    let mut room = Room::default();
    if bytes.len() > BODY_BYTES_SMALL || weight.bytes > BODY_VALUES_BYTES_SMALL {
        let needed = bytes.len() as u64 + weight.bytes;
        grow(&mut room, needed.min(BODY_VALUES_BYTES_MAX)).await?;
    }
    Ok((parsed(bytes)?, room))
}

/// Returns the weight of a body, or an error if the body has too many values.
fn weighed(bytes: &[u8]) -> Result<JsonWeight> {
    let weight = JsonWeight::of(bytes);
    if weight.values > BODY_VALUES_MAX {
        let text = format!("at most {BODY_VALUES_MAX} values: split the body");
        return Err(Error::new(Code::BodyTooLarge, text).with("values_max", BODY_VALUES_MAX));
    }
    Ok(weight)
}

/// Enlarges the room of a body to the given number of bytes.
pub(super) async fn grow(room: &mut Room, bytes: u64) -> Result<()> {
    if BODIES.grow(room, bytes, Duration::from_millis(BODY_ROOM_MS_MAX)).await {
        return Ok(());
    }
    metrics::counter!(metric::SHED).increment(1);
    let text = "too many large bodies at once: retry later with the same key";
    Err(Error::new(Code::Overloaded, text))
}

fn parsed(bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Error::new(
            Code::InvalidJson,
            format!("the body is not UTF-8 at byte {}: send JSON in UTF-8", e.valid_up_to()),
        )
    })?;
    match serde_json::from_str(text) {
        Ok(StrictJson(Value::Object(map))) => Ok(map),
        Ok(_) => Err(Error::new(Code::InvalidJson, "the body is not a JSON object")),
        Err(e) => {
            let why = if e.is_data() { "names an attribute twice" } else { "is not JSON" };
            let text = format!("the body {why} at line {} column {}", e.line(), e.column());
            Err(Error::new(Code::InvalidJson, text))
        }
    }
}

/// Reads a body of at most `bytes_max` bytes. A longer body is refused, but its rest is first read
/// and dropped, up to a limit, since the client loses the answer if the connection closes while the
/// client still sends. The function `read_on`, which reads the rest of other requests' bodies,
/// cannot do this: a client that waits for `100 Continue` begins to send only after the first read
/// here. If the length that such a client announced is over the limit, nothing is read, so that the
/// client is not told to send the body.
async fn limited(mut body: Body, bytes_max: usize) -> Result<(Vec<u8>, Room)> {
    refuse_announced(&body, bytes_max as u64)?;
    let (mut bytes, mut length, mut room) = (Vec::new(), 0, Room::default());
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|e| Error::new(Code::InvalidJson, "the body was cut off").caused_by(e))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length <= bytes_max {
            if length > bytes.capacity() {
                let capacity = bytes.capacity() + bytes.capacity() / 2;
                let capacity = capacity.clamp(length, bytes_max);
                if capacity > BODY_BYTES_SMALL {
                    grow(&mut room, capacity as u64).await?;
                }
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&data);
        } else if length > BODY_DRAINED_BYTES_MAX {
            break;
        }
    }
    if length <= bytes_max {
        return Ok((bytes, room));
    }
    Err(too_large(bytes_max as u64))
}

/// Refuses a body whose announced length is over the limit if the client waits for `100 Continue`
/// before it sends the body. The size hint of such a body has no upper bound; see `vctx_base`.
pub(super) fn refuse_announced(body: &Body, bytes_max: u64) -> Result<()> {
    let hint = body.size_hint();
    match hint.upper().is_none() && hint.lower() > bytes_max {
        true => Err(too_large(bytes_max)),
        false => Ok(()),
    }
}

fn too_large(bytes_max: u64) -> Error {
    Error::new(Code::BodyTooLarge, format!("at most {bytes_max} bytes: split the text"))
        .with("bytes_max", bytes_max)
}
