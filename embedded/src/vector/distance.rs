//! Inner products and distances of f32 vectors, computed as parallel sums that the compiler
//! vectorises.

use pulp::Arch;

use crate::schema::Metric;

/// Number of parallel sums. They fill four vector registers of 256 bits, or eight registers of 128
/// bits. Both numbers of registers are enough to hide the latency of an addition.
const LANES: usize = 32;

/// Runs a closure with the widest vector instructions that the machine has. The closure must be
/// inlined. Its results are equal on all machines, because lanes are added in a fixed order, and
/// each product is rounded before the addition.
#[inline(always)]
pub(crate) fn with_vectors<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
}

/// A component of a vector, in memory or in its stored form (four bytes, little-endian).
pub(crate) trait Component: Copy {
    fn value(self) -> f32;
}

impl Component for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

impl Component for [u8; 4] {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from_le_bytes(self)
    }
}

/// Returns the closeness of two vectors of equal dimension; nearer vectors have a larger closeness.
/// For `l2`, the closeness is the negative squared distance; for other metrics, it is the inner
/// product.
#[inline(always)]
pub(crate) fn closeness<C: Component>(metric: Metric, a: &[f32], b: &[C]) -> f32 {
    match metric {
        Metric::Cosine | Metric::InnerProduct => sum(a, b, |x, y| x * y),
        Metric::L2 => -sum(a, b, |x, y| (x - y) * (x - y)),
    }
}

/// Converts a closeness to the number that a query returns: the cosine, the inner product or the
/// distance.
pub(crate) fn similarity(metric: Metric, closeness: f32) -> f32 {
    match metric {
        Metric::Cosine | Metric::InnerProduct => closeness,
        Metric::L2 => (-closeness).max(0.0).sqrt(),
    }
}

/// Sums a term over the components of two vectors, in a fixed order that gives equal sums on every
/// machine.
#[inline(always)]
fn sum<C: Component>(a: &[f32], b: &[C], term: impl Fn(f32, f32) -> f32) -> f32 {
    debug_assert_eq!(a.len(), b.len(), "vectors of one index have one dimension");
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane].value());
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, b.value())).sum();
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vector::bytes_of;

    fn pair() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
        (0_usize..70).prop_flat_map(|length| {
            let one = || prop::collection::vec(-8.0_f32..8.0, length);
            (one(), one())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lanes_add_up_to_what_a_plain_loop_does((a, b) in pair()) {
            let exact = |term: fn(f64, f64) -> f64| -> f64 {
                a.iter().zip(&b).map(|(x, y)| term(f64::from(*x), f64::from(*y))).sum()
            };
            let product = exact(|x, y| x * y);
            let distance = exact(|x, y| (x - y) * (x - y)).sqrt();
            let near = |found: f32, wanted: f64| (f64::from(found) - wanted).abs() < 1e-3 * (1.0 + wanted.abs());
            let stored = bytes_of(&b);
            let (stored, _) = stored.as_chunks::<4>();
            for metric in [Metric::Cosine, Metric::InnerProduct, Metric::L2] {
                let found = closeness(metric, &a, &b);
                let wide = with_vectors(#[inline(always)] || closeness(metric, &a, &b));
                prop_assert_eq!(found.to_bits(), wide.to_bits());
                prop_assert_eq!(found.to_bits(), closeness(metric, &a, stored).to_bits());
                let wanted = if metric == Metric::L2 { distance } else { product };
                prop_assert!(near(similarity(metric, found), wanted), "{:?}: {} not {}", metric, found, wanted);
            }
        }
    }
}
