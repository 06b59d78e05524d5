//! Receives one request, runs it on a thread and sends the answer.

use std::convert::Infallible;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::{GzDecoder, ZlibDecoder};
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::{Code, Error, Result};

use super::call::TRANSACTION_HEADER;
use super::front::Front;
use super::limits::{BODY_BYTES_MAX, BODY_WAIT, TARGET_BYTES_MAX};
use super::pool::Lane;
use super::reply::Reply;
use super::request::Request;
use super::routes;

/// Header for asynchronous requests (`true` or `store`).
pub(super) const ASYNC_HEADER: &str = "x-arango-async";

/// Answers one request. If the request fails, the answer contains the error.
pub(super) async fn answer(
    front: Arc<Front>,
    request: hyper::Request<Incoming>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::OPTIONS {
        let methods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
        return Ok(Reply::empty(200).header("allow", methods).into_response());
    }
    let reads = request.method() == Method::GET;
    Ok(match receive(&front, request).await {
        Ok((head, body, room)) => {
            let whole = body_of(&head.headers, body);
            let request =
                whole.and_then(|body| Request::new(head.method, &head.uri, head.headers, body));
            let done = match request {
                Ok(request) if request.headers.contains_key(ASYNC_HEADER) => {
                    #[cfg(feature = "conformance")]
                    let done = {
                        let lane = lane(&request);
                        Ok(super::conformance::later(&front, request, lane, room).await)
                    };
                    #[cfg(not(feature = "conformance"))]
                    let done = Err(Error::unsupported("the header x-arango-async"));
                    done
                }
                Ok(request) => {
                    let (work, lane) = (Arc::clone(&front), lane(&request));
                    let answer = move || {
                        let _room = room;
                        routes::answer(&work, &request)
                    };
                    front.pool.run(lane, answer).await
                }
                Err(error) => Err(error),
            };
            let reply = done.unwrap_or_else(|error| Reply::error(&error));
            reply.counted(front.engine.room(), reads).into_response()
        }
        Err(error) => {
            // The body was not read completely, so the connection cannot be reused.
            let mut response = Reply::error(&error).into_response();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            response
        }
    })
}

/// Receives a request; returns an error if it exceeds a limit of size or time.
async fn receive(
    front: &Front,
    request: hyper::Request<Incoming>,
) -> Result<(Parts, Bytes, OwnedSemaphorePermit)> {
    let (head, body) = request.into_parts();
    if head.uri.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES_MAX) {
        return Err(Error::of(Code::HttpUriTooLong));
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        let message = "chunked request bodies are not supported, send a content-length";
        return Err(Error::new(Code::HttpBadParameter, message).with_status(411));
    }
    let length = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if length > BODY_BYTES_MAX {
        return Err(Error::of(Code::HttpTooLarge));
    }
    let velocypack =
        |value: &HeaderValue| value.as_bytes().starts_with(b"application/x-velocypack");
    if head.headers.get(CONTENT_TYPE).is_some_and(velocypack) {
        return Err(Error::unsupported("application/x-velocypack"));
    }
    let room = front.pool.room(length)?;
    Ok((head, collect(body).await?, room))
}

/// Decompresses the body; error 413 if the result is too long.
fn body_of(headers: &HeaderMap, body: Bytes) -> Result<Bytes> {
    let Some(encoding) = headers.get(CONTENT_ENCODING) else { return Ok(body) };
    let mut whole = Vec::new();
    let most = BODY_BYTES_MAX as u64 + 1;
    let read = match encoding.as_bytes() {
        b"identity" => return Ok(body),
        b"gzip" => GzDecoder::new(&body[..]).take(most).read_to_end(&mut whole),
        b"deflate" => ZlibDecoder::new(&body[..]).take(most).read_to_end(&mut whole),
        _ => return Err(Error::unsupported("this content-encoding of a request")),
    };
    read.map_err(|_| Error::new(Code::HttpBadParameter, "the body cannot be decompressed"))?;
    if whole.len() > BODY_BYTES_MAX { Err(Error::of(Code::HttpTooLarge)) } else { Ok(whole.into()) }
}

async fn collect(body: Incoming) -> Result<Bytes> {
    let whole = tokio::time::timeout(BODY_WAIT, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    match whole {
        Err(_) => {
            Err(Error::new(Code::HttpBadParameter, "the body came too slowly").with_status(408))
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Error::of(Code::HttpTooLarge)),
        Ok(Err(_)) => Err(Error::new(Code::HttpBadParameter, "the body broke off")),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// Returns the lane (group of threads) of a request. Operations in stream transactions, especially
/// commits and aborts, must not queue after requests that wait for them.
fn lane(request: &Request) -> Lane {
    match request.segments().as_slice() {
        ["_api", "transaction", "begin"] => Lane::Begin,
        ["_api", "transaction", _] if request.method != Method::GET => Lane::Finish,
        _ if request.headers.contains_key(TRANSACTION_HEADER) => Lane::Stream,
        _ => Lane::Common,
    }
}
