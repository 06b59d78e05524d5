//! Divides a rectangle into parts whose areas are proportional to numbers, and as square as
//! possible (the squarified treemap of Bruls, Huizing and van Wijk).

/// A rectangle; `x` and `y` are its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

/// Divides a rectangle by numbers that are ordered from large to small. A number of 0 gets a
/// rectangle without area.
pub(super) fn divided(numbers: &[u64], within: Rect) -> Vec<Rect> {
    let mut total: f64 = numbers.iter().map(|n| *n as f64).sum();
    let (mut rest, mut left, mut out) = (within, numbers, Vec::new());
    while !left.is_empty() {
        if total <= 0.0 {
            out.extend(left.iter().map(|_| Rect { w: 0.0, h: 0.0, ..rest }));
            break;
        }
        let scale = rest.w * rest.h / total;
        let side = rest.w.min(rest.h);
        let mut taken = 1;
        while taken < left.len()
            && worst(&left[..=taken], side, scale) <= worst(&left[..taken], side, scale)
        {
            taken += 1;
        }
        let (row, others) = left.split_at(taken);
        let sum: f64 = row.iter().map(|n| *n as f64).sum();
        let thickness = if side > 0.0 { sum * scale / side } else { 0.0 };
        let mut along = 0.0;
        for number in row {
            let length = if sum > 0.0 { side * *number as f64 / sum } else { 0.0 };
            out.push(match rest.w >= rest.h {
                true => Rect { x: rest.x, y: rest.y + along, w: thickness, h: length },
                false => Rect { x: rest.x + along, y: rest.y, w: length, h: thickness },
            });
            along += length;
        }
        rest = match rest.w >= rest.h {
            true => Rect { x: rest.x + thickness, w: (rest.w - thickness).max(0.0), ..rest },
            false => Rect { y: rest.y + thickness, h: (rest.h - thickness).max(0.0), ..rest },
        };
        (left, total) = (others, total - sum);
    }
    out
}

/// Returns the largest ratio of length to width in a row of rectangles on a side.
fn worst(row: &[u64], side: f64, scale: f64) -> f64 {
    let area = |n: &u64| *n as f64 * scale;
    let sum: f64 = row.iter().map(area).sum();
    let (side, sum) = (side * side, sum * sum);
    row.iter().map(area).fold(0.0, |most: f64, area| match area > 0.0 {
        true => most.max(side * area / sum).max(sum / (side * area)),
        false => f64::INFINITY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_proportional_and_do_not_overlap() {
        let within = Rect { x: 10.0, y: 20.0, w: 300.0, h: 200.0 };
        for numbers in [vec![7], vec![6, 6, 4, 3, 2, 2, 1], vec![1_000_000, 3, 1, 0, 0], vec![0]] {
            let rects = divided(&numbers, within);
            assert_eq!(rects.len(), numbers.len());
            let total: u64 = numbers.iter().sum();
            for (number, rect) in numbers.iter().zip(&rects) {
                let due = *number as f64 / total.max(1) as f64 * 60_000.0;
                assert!((rect.w * rect.h - due).abs() < 1e-6, "{number} {rect:?}");
                let inside = rect.x >= 10.0 - 1e-6
                    && rect.y >= 20.0 - 1e-6
                    && rect.x + rect.w <= 310.0 + 1e-6
                    && rect.y + rect.h <= 220.0 + 1e-6;
                assert!(inside, "{rect:?}");
            }
            for (at, a) in rects.iter().enumerate() {
                for b in &rects[at + 1..] {
                    let wide = (a.x + a.w).min(b.x + b.w) - a.x.max(b.x);
                    let high = (a.y + a.h).min(b.y + b.h) - a.y.max(b.y);
                    assert!(wide.min(high) < 1e-6, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn equal_parts_are_nearly_square() {
        let rects = divided(&[5; 12], Rect { x: 0.0, y: 0.0, w: 400.0, h: 300.0 });
        assert!(rects.iter().all(|r| r.w / r.h < 2.0 && r.h / r.w < 2.0), "{rects:?}");
    }
}
