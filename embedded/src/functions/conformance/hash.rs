//! AQL functions for checksums, digests and MinHash signatures.

use base64::Engine as _;
use sha2::Digest;
use xxhash_rust::xxh64::xxh64;

use crate::error::Result;
use crate::functions::Call;
use crate::functions::call::number;
use crate::functions::string::hex;
use crate::functions::table::{Function, pure};
use crate::value::Value;

/// The AQL functions that this file implements.
pub(crate) const TABLE: &[Function] = &[
    pure("MD5", 1, 1, digest::<md5::Md5>, "MD5 in hex"),
    pure("SHA1", 1, 1, digest::<sha1::Sha1>, "SHA-1 in hex"),
    pure("SHA512", 1, 1, digest::<sha2::Sha512>, "SHA-512 in hex"),
    pure("CRC32", 1, 1, crc32, "CRC-32C in hex"),
    pure("FNV64", 1, 1, fnv64, "FNV-1A 64 in hex"),
    pure(
        "HASH",
        1,
        1,
        |_, a| Ok(Value::from(hash(&a[0], SEED) & HASH_BITS)),
        "hash of any value, as a number",
    ),
    pure("SOUNDEX", 1, 1, soundex, "how a word sounds"),
    pure("MINHASH", 2, 2, min_hash, "signature of a set"),
    pure("MINHASH_COUNT", 1, 1, min_hash_count, "signature length that suffices for a given error"),
    pure(
        "MINHASH_ERROR",
        1,
        1,
        min_hash_error,
        "expected error of a signature with a given length",
    ),
];

/// Seed of VelocyPack's hashes (its source: `Slice::defaultSeed64`).
const SEED: u64 = 0xdead_beef;
/// Mask of the bits that HASH returns. There are 51, so that clients can represent the hash exactly
/// as a double.
const HASH_BITS: u64 = 0x0007_ffff_ffff_ffff;

fn digest<D: Digest>(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Ok(hex(&D::digest(a[0].to_text().as_bytes())).into())
}

/// Castagnoli's CRC-32C polynomial, with reversed bits.
const CRC32C: u32 = 0x82f6_3b78;

fn crc32(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let step = |crc: u32, byte: u8| {
        let bit = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ CRC32C } else { crc >> 1 };
        (0..8).fold(crc ^ u32::from(byte), bit)
    };
    Ok(format!("{:X}", !a[0].to_text().bytes().fold(u32::MAX, step)).into())
}

fn fnv64(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in a[0].to_text().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Ok(format!("{hash:X}").into())
}

/// VelocyPack's normalised hash of a value. Numbers are hashed as doubles, and the order of an
/// object's attributes has no effect.
fn hash(value: &Value, seed: u64) -> u64 {
    match value {
        Value::Null => xxh64(&[0x18], seed),
        Value::Bool(false) => xxh64(&[0x19], seed),
        Value::Bool(true) => xxh64(&[0x1a], seed),
        Value::String(text) => hash_text(text, seed),
        Value::Array(items) => {
            let start = xxh64(&(items.len() as u64 ^ 0x00ba_5bed_f00d).to_le_bytes(), seed);
            items.iter().fold(start, |sum, item| sum ^ hash(item, sum))
        }
        Value::Object(object) => {
            let start = xxh64(&(object.len() as u64 ^ 0x00f0_0ba4_4ba5).to_le_bytes(), seed);
            object.iter().fold(start, |sum, (name, item)| {
                let named = hash_text(name, start);
                sum ^ named ^ hash(item, named)
            })
        }
        numeric => xxh64(&numeric.to_f64().to_le_bytes(), seed),
    }
}

/// Encodes a text as VelocyPack does: a length up to 126 takes one byte, a larger length takes
/// eight bytes after a marker byte.
fn hash_text(text: &str, seed: u64) -> u64 {
    let mut bytes = Vec::with_capacity(text.len() + 9);
    match u8::try_from(text.len()) {
        Ok(length @ 0..=126) => bytes.push(0x40 + length),
        _ => {
            bytes.push(0xbf);
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        }
    }
    bytes.extend_from_slice(text.as_bytes());
    xxh64(&bytes, seed)
}

fn soundex(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let text = a[0].to_text();
    let code = |letter: u8| match letter.to_ascii_lowercase() {
        b'b' | b'f' | b'p' | b'v' => Some('1'),
        b'c' | b'g' | b'j' | b'k' | b'q' | b's' | b'x' | b'z' => Some('2'),
        b'd' | b't' => Some('3'),
        b'l' => Some('4'),
        b'm' | b'n' => Some('5'),
        b'r' => Some('6'),
        _ => None,
    };
    let mut bytes = text.bytes().skip_while(|b| !b.is_ascii_alphabetic());
    let Some(first) = bytes.next() else { return Ok("".into()) };
    let mut out = String::from(char::from(first.to_ascii_uppercase()));
    let mut before = None;
    for byte in bytes {
        let now = code(byte);
        if now != before && out.len() < 4 {
            out.extend(now);
        }
        before = now;
    }
    Ok(format!("{out:0<4}").into())
}

/// Maximum number of hashes in a signature.
const SIGNATURE_MAX: i64 = 1_000_000;

/// Evaluates MINHASH: returns the smallest hashes of the items, in base64.
fn min_hash(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (Some(items), size) = (a[0].as_array(), a[1].to_i64()) else { return call.mistyped() };
    if !a[1].is_number() || !(1..=SIGNATURE_MAX).contains(&size) {
        return call.mistyped();
    }
    let mut hashes: Vec<u64> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for item in items {
        let hash = hash(item, SEED);
        if seen.insert(hash) {
            hashes.push(hash);
        }
    }
    if let Some(end) = seen.into_iter().nth(size as usize) {
        hashes.retain(|hash| *hash < end);
    }
    let text = |hash: u64| base64::prelude::BASE64_STANDARD_NO_PAD.encode(hash.to_le_bytes());
    Ok(Value::array(hashes.into_iter().map(|hash| text(hash).into()).collect()))
}

fn min_hash_count(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a[0].as_f64() {
        Some(error) if error > 0.0 && error < 1.0 => number((1.0 / (error * error)).ceil()),
        _ => call.mistyped(),
    }
}

fn min_hash_error(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a[0].as_f64() {
        Some(size) if size >= 1.0 => number(1.0 / size.trunc().sqrt()),
        _ => call.mistyped(),
    }
}
