//! Measures how many lists of the vector index a search must read: compares searches of few lists
//! with searches of all lists, and counts the vectors in the searched lists.

use crate::store::{Admin, Fault, sample, sample_near, sample_scanned};
use vctx_core::memory::archive::{Metric, VectorSetting};
use vctx_core::search::{ListMeasurement, RECALL_WANTED, ladder, questions, recall};

/// Number of vectors that a measurement samples. The sum of three of these vectors makes one
/// question (a query vector of the measurement).
const SAMPLE_ROWS: u64 = 144;
/// Number of nearest vectors requested by each question of a measurement.
const SAMPLE_NEAREST: u64 = 10;
/// Number of questions for which a measurement also counts the vectors in the searched lists.
const SAMPLE_SCANNED: usize = 16;
/// Minimum number of questions of a measurement.
const SAMPLE_QUESTIONS_MIN: usize = 16;

/// A sample of question vectors, each with the scores of its nearest vectors.
struct Sample<'a> {
    admin: &'a Admin,
    setting: &'a VectorSetting,
    questions: Vec<Vec<f64>>,
    truths: Vec<Vec<f64>>,
    rows: u64,
    n_lists: u64,
}

/// Finds the smallest number of lists with which the sampled questions reach the required recall.
/// Returns `None` if the archive has too few vectors.
pub(super) async fn measured(
    admin: &Admin,
    setting: &VectorSetting,
    n_lists: u64,
    rows: u64,
) -> Result<Option<ListMeasurement>, Fault> {
    // The sample begins at a two-digit prefix of the chunk keys. The keys are hexadecimal hashes,
    // so all prefixes are equally frequent.
    let from = format!("{:02x}", rows % 191);
    let questions = questions(&sample(admin, &setting.attribute(), &from, SAMPLE_ROWS).await?);
    if questions.len() < SAMPLE_QUESTIONS_MIN {
        return Ok(None);
    }
    let mut truths = Vec::with_capacity(questions.len());
    for question in &questions {
        truths.push(sample_near(admin, setting, question, n_lists, SAMPLE_NEAREST).await?);
    }
    let sample = Sample { admin, setting, questions, truths, rows, n_lists };
    let n_probe = sample.fewest().await?;
    let found = sample.measure_reads(n_probe).await?;
    match found.within_share() {
        Some(fewer) => sample.measure_reads(fewer).await.map(Some),
        None => Ok(Some(found)),
    }
}

impl Sample<'_> {
    /// Returns the smallest tried number of lists that reaches the required recall, or the largest
    /// tried number if none does.
    async fn fewest(&self) -> Result<u32, Fault> {
        let ladder = ladder(self.n_lists);
        let (mut low, mut high) = (0, ladder.len() - 1);
        while low < high {
            let at = usize::midpoint(low, high);
            match self.recall(ladder[at]).await? >= RECALL_WANTED {
                true => high = at,
                false => low = at + 1,
            }
        }
        Ok(ladder[low])
    }

    /// Measures searches that read the given number of lists: their recall, and the number of
    /// vectors in the lists.
    async fn measure_reads(&self, n_probe: u32) -> Result<ListMeasurement, Fault> {
        let recall = self.recall(n_probe).await?;
        let mut counted = 0;
        let some = &self.questions[..self.questions.len().min(SAMPLE_SCANNED)];
        for question in some {
            let cells = u64::from(n_probe);
            counted += sample_scanned(self.admin, self.setting, question, cells, self.rows).await?;
        }
        let scanned = counted as f64 / (some.len() as u64 * self.rows).max(1) as f64;
        let questions = self.questions.len() as u64;
        Ok(ListMeasurement {
            n_probe,
            recall,
            questions,
            scanned,
            rows: self.rows,
            n_lists: self.n_lists,
        })
    }

    async fn recall(&self, n_probe: u32) -> Result<f64, Fault> {
        let rising = self.setting.metric == Metric::L2;
        let mut sum = 0.0;
        for (question, truth) in self.questions.iter().zip(&self.truths) {
            let cells = u64::from(n_probe);
            let found =
                sample_near(self.admin, self.setting, question, cells, SAMPLE_NEAREST).await?;
            sum += recall(truth, &found, rising);
        }
        Ok(sum / self.questions.len().max(1) as f64)
    }
}
