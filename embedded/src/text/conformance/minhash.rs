//! MinHash signatures: the smallest hashes of the tokens, computed with CityHash64 as in ArangoDB.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Returns the `size` smallest hashes of the given texts in ascending order; returns all hashes if
/// there are fewer.
pub(in crate::text) fn signature<'a>(
    texts: impl Iterator<Item = &'a str>,
    size: usize,
) -> Vec<u64> {
    let mut hashes = BTreeSet::new();
    for text in texts {
        hashes.insert(city_hash(text.as_bytes()));
        if hashes.len() > size {
            hashes.pop_last();
        }
    }
    hashes.into_iter().collect()
}

/// Returns the token that represents a hash: the hash's bytes in base 64.
pub(in crate::text) fn token(hash: u64) -> String {
    STANDARD_NO_PAD.encode(hash.to_le_bytes())
}

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

fn eight(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn four(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(word))
}

fn mixed(value: u64) -> u64 {
    value ^ (value >> 47)
}

fn folded(u: u64, v: u64, factor: u64) -> u64 {
    let a = mixed((u ^ v).wrapping_mul(factor));
    mixed((v ^ a).wrapping_mul(factor)).wrapping_mul(factor)
}

/// Returns the CityHash64 of some bytes, version 1.1 (Pike and Alakuijala, 2011).
pub(crate) fn city_hash(text: &[u8]) -> u64 {
    match text.len() {
        0..=16 => short(text),
        17..=32 => middle(text),
        33..=64 => long(text),
        _ => any(text),
    }
}

fn short(s: &[u8]) -> u64 {
    let length = s.len();
    let factor = K2.wrapping_add(length as u64 * 2);
    if length >= 8 {
        let a = eight(s, 0).wrapping_add(K2);
        let b = eight(s, length - 8);
        let c = b.rotate_right(37).wrapping_mul(factor).wrapping_add(a);
        let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(factor);
        return folded(c, d, factor);
    }
    if length >= 4 {
        let first = (length as u64).wrapping_add(four(s, 0) << 3);
        return folded(first, four(s, length - 4), factor);
    }
    if length == 0 {
        return K2;
    }
    let (a, b, c) = (u64::from(s[0]), u64::from(s[length >> 1]), u64::from(s[length - 1]));
    let y = a + (b << 8);
    let z = length as u64 + (c << 2);
    mixed(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
}

fn middle(s: &[u8]) -> u64 {
    let length = s.len();
    let factor = K2.wrapping_add(length as u64 * 2);
    let a = eight(s, 0).wrapping_mul(K1);
    let b = eight(s, 8);
    let c = eight(s, length - 8).wrapping_mul(factor);
    let d = eight(s, length - 16).wrapping_mul(K2);
    let first = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
    let second = a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c);
    folded(first, second, factor)
}

fn long(s: &[u8]) -> u64 {
    let length = s.len();
    let factor = K2.wrapping_add(length as u64 * 2);
    let a = eight(s, 0).wrapping_mul(K2);
    let b = eight(s, 8);
    let c = eight(s, length - 24);
    let d = eight(s, length - 32);
    let e = eight(s, 16).wrapping_mul(K2);
    let f = eight(s, 24).wrapping_mul(9);
    let g = eight(s, length - 8);
    let h = eight(s, length - 16).wrapping_mul(factor);
    let u = a
        .wrapping_add(g)
        .rotate_right(43)
        .wrapping_add(b.rotate_right(30).wrapping_add(c).wrapping_mul(9));
    let v = (a.wrapping_add(g) ^ d).wrapping_add(f).wrapping_add(1);
    let w = u.wrapping_add(v).wrapping_mul(factor).swap_bytes().wrapping_add(h);
    let x = e.wrapping_add(f).rotate_right(42).wrapping_add(c);
    let y =
        v.wrapping_add(w).wrapping_mul(factor).swap_bytes().wrapping_add(g).wrapping_mul(factor);
    let z = e.wrapping_add(f).wrapping_add(c);
    let a = x.wrapping_add(z).wrapping_mul(factor).wrapping_add(y).swap_bytes().wrapping_add(b);
    let b = mixed(z.wrapping_add(a).wrapping_mul(factor).wrapping_add(d).wrapping_add(h))
        .wrapping_mul(factor);
    b.wrapping_add(x)
}

/// Computes two hashes from 32 bytes and two seeds; this is one step of CityHash64.
fn weak(s: &[u8], at: usize, a: u64, b: u64) -> (u64, u64) {
    let (w, x, y, z) = (eight(s, at), eight(s, at + 8), eight(s, at + 16), eight(s, at + 24));
    let a = a.wrapping_add(w);
    let b = b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let c = a;
    let a = a.wrapping_add(x).wrapping_add(y);
    let b = b.wrapping_add(a.rotate_right(44));
    (a.wrapping_add(z), b.wrapping_add(c))
}

fn any(s: &[u8]) -> u64 {
    let length = s.len();
    let mut x = eight(s, length - 40);
    let mut y = eight(s, length - 16).wrapping_add(eight(s, length - 56));
    let mut z = folded(
        eight(s, length - 48).wrapping_add(length as u64),
        eight(s, length - 24),
        0x9ddf_ea08_eb38_2d69,
    );
    let mut v = weak(s, length - 64, length as u64, z);
    let mut w = weak(s, length - 32, y.wrapping_add(K1), x);
    x = x.wrapping_mul(K1).wrapping_add(eight(s, 0));
    for at in (0..(length - 1) & !63).step_by(64) {
        x = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(eight(s, at + 8));
        x = x.rotate_right(37).wrapping_mul(K1);
        y = y.wrapping_add(v.1).wrapping_add(eight(s, at + 48)).rotate_right(42).wrapping_mul(K1);
        x ^= w.1;
        y = y.wrapping_add(v.0).wrapping_add(eight(s, at + 40));
        z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(K1);
        v = weak(s, at, v.1.wrapping_mul(K1), x.wrapping_add(w.0));
        w = weak(s, at + 32, z.wrapping_add(w.1), y.wrapping_add(eight(s, at + 16)));
        std::mem::swap(&mut z, &mut x);
    }
    let sixteen = |u: u64, v: u64| folded(u, v, 0x9ddf_ea08_eb38_2d69);
    sixteen(
        sixteen(v.0, w.0).wrapping_add(mixed(y).wrapping_mul(K1)).wrapping_add(z),
        sixteen(v.1, w.1).wrapping_add(x),
    )
}
