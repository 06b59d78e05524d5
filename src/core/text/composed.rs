//! Computes context vectors for embedding models that return no token states: a chunk's vector plus
//! a share of its neighbours' and its document's vectors.

/// Weights of a chunk's neighbours (λ, this constant) and of its document (μ, [`DOCUMENT_SHARE`])
/// in the context vector normalise(chunk + λ·section + μ·document). The vectors chunk, section and
/// document have length 1. Both weights are small, so that a chunk is found by its own words first.
pub(super) const SECTION_SHARE: f64 = 0.2;
/// Weight of the document's vector (μ); see [`SECTION_SHARE`].
pub(super) const DOCUMENT_SHARE: f64 = 0.1;

/// Computes the context vectors of a document's chunks from the vectors of the single chunks (of
/// length 1, in order). In the formula, the section of a chunk consists of the chunk before it and
/// the chunk after it. If a document has only one chunk, this chunk keeps its vector.
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

/// Returns the vector scaled to length 1; a zero vector is unchanged.
fn unit(mut vector: Vec<f64>) -> Vec<f64> {
    let length = vector.iter().map(|c| c * c).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|c| *c /= length);
    }
    vector
}
