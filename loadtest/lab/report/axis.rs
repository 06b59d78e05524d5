//! Axes of the pictures: round ticks, and labels that keep their size at every width.

use std::fmt::Write as _;

use super::html::{share, thousands};

/// Maximum number of steps between the ticks of an axis.
const STEPS_MAX: u64 = 5;

/// An axis of tokens that begins at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    /// Largest value.
    pub(super) top: u64,
    step: u64,
}

impl Axis {
    /// Returns the axis up to a value, with a tick at every 1, 2 or 5 times a power of ten.
    pub(super) fn to(most: u64) -> Axis {
        let top = most.max(1);
        let mut power = 1;
        loop {
            for step in [1, 2, 5].map(|digit: u64| digit.saturating_mul(power)) {
                if top / step <= STEPS_MAX {
                    return Axis { top, step };
                }
            }
            power = power.saturating_mul(10);
        }
    }

    /// Returns the values of the ticks.
    pub(super) fn ticks(self) -> impl Iterator<Item = u64> {
        (0..=self.top / self.step).map(move |n| n * self.step)
    }

    /// Returns the place of a value on the axis, in percent.
    pub(super) fn place(self, value: u64) -> f64 {
        share(value.min(self.top), self.top)
    }

    /// Returns the labels of the ticks; `side` is the CSS property that places a label.
    pub(super) fn labels(self, side: &str) -> String {
        let mut out = String::new();
        for value in self.ticks() {
            let (place, text) = (self.place(value), thousands(value));
            write!(out, "<span style=\"{side}:{place:.2}%\">{text}</span>").expect("a String");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (most, ticks) in [
            (0, vec![0, 1]),
            (7, vec![0, 2, 4, 6]),
            (2_048, vec![0, 500, 1_000, 1_500, 2_000]),
            (8_192, vec![0, 2_000, 4_000, 6_000, 8_000]),
            (128_000, vec![0, 50_000, 100_000]),
        ] {
            assert_eq!(Axis::to(most).ticks().collect::<Vec<_>>(), ticks, "{most}");
        }
        assert!(Axis::to(u64::MAX).ticks().count() <= 6);
        assert_eq!(Axis::to(200).labels("left").matches("left:50.00%").count(), 1);
    }
}
