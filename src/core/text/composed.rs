//! Late vectors from early ones, for models that give no token states: a chunk's vector, a little of what stands around it, and of the whole.

/// Share of a chunk's neighbours in its vector (λ), and of the whole document (μ): normalise(chunk + λ·section + μ·document), each side of
/// length 1. Small, as the lexical embedder's: a chunk must be found by its own words first.
pub(super) const SECTION_SHARE: f64 = 0.2;
/// See [`SECTION_SHARE`].
pub(super) const DOCUMENT_SHARE: f64 = 0.1;

/// One vector for each chunk of a document, from those of the chunks alone (of length 1, in order). The section of a chunk is the chunk
/// before and the one behind. A chunk that is the whole document keeps its vector: that one was made in the light of the whole.
pub fn composed(chunks: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let Some(first) = chunks.first() else { return Vec::new() };
    let mut all = vec![0.0; first.len()];
    chunks.iter().for_each(|chunk| add(&mut all, chunk, 1.0));
    let document = unit(all);
    let alone = chunks.len() == 1;
    let one = |(at, chunk): (usize, &Vec<f32>)| {
        let mut section = vec![0.0; first.len()];
        let neighbours = [at.checked_sub(1), Some(at + 1)];
        for neighbour in neighbours.into_iter().flatten().filter_map(|at| chunks.get(at)) {
            add(&mut section, neighbour, 1.0);
        }
        let mut vector: Vec<f64> = chunk.iter().copied().map(f64::from).collect();
        if !alone {
            let section = unit(section);
            for (place, component) in vector.iter_mut().enumerate() {
                *component += SECTION_SHARE * section[place] + DOCUMENT_SHARE * document[place];
            }
        }
        unit(vector).into_iter().map(|component| component as f32).collect()
    };
    chunks.iter().enumerate().map(one).collect()
}

fn add(sum: &mut [f64], vector: &[f32], weight: f64) {
    sum.iter_mut().zip(vector).for_each(|(sum, part)| *sum += weight * f64::from(*part));
}

/// The vector with length 1; one without direction stays as it is.
fn unit(mut vector: Vec<f64>) -> Vec<f64> {
    let length = vector.iter().map(|c| c * c).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|c| *c /= length);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_chunk_among_others_has_another_vector_near_its_own() {
        let (x, y, z) = (vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]);
        let here = composed(&[x.clone(), y.clone()]);
        let there = composed(&[x.clone(), z]);
        assert_ne!(here[0], there[0]);
        assert!(here[0][0] > 0.95 && there[0][0] > 0.95);
        assert_ne!(here[0], x);
        assert_eq!(composed(std::slice::from_ref(&x)), [x]);
        assert!(composed(&[]).is_empty());
    }
}
