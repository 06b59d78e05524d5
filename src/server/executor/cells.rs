//! Measures how many cells of the vector index a search needs: a sample of questions through fewer and fewer cells, all cells together being the
//! truth; and how many of the vectors lie in those cells.

use crate::store::{Admin, Fault, sample, sample_near, sample_scanned};
use vctx_core::limits::{SAMPLE_NEAREST, SAMPLE_QUESTIONS_MIN, SAMPLE_ROWS, SAMPLE_SCANNED};
use vctx_core::memory::archive::{Metric, VectorSetting};
use vctx_core::policy::{Measured, RECALL_WANTED, ladder, questions, recall};

/// A sample of questions, and how near the nearest are to each.
struct Sample<'a> {
    admin: &'a Admin,
    setting: &'a VectorSetting,
    questions: Vec<Vec<f64>>,
    truths: Vec<Vec<f64>>,
    rows: u64,
    n_lists: u64,
}

/// Asks a sample of questions through fewer and fewer cells; none if there is too little to draw from.
pub(super) async fn measured(
    admin: &Admin,
    setting: &VectorSetting,
    n_lists: u64,
    rows: u64,
) -> Result<Option<Measured>, Fault> {
    // Keys are hashes in hex: any two digits begin as many of them as any others.
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
    let found = sample.found(n_probe).await?;
    match found.within_share() {
        Some(fewer) => sample.found(fewer).await.map(Some),
        None => Ok(Some(found)),
    }
}

impl Sample<'_> {
    /// The first number of cells of the ladder with which enough is found; where not even the last one is enough, it is what there is.
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

    /// What so many cells find, and what they hold.
    async fn found(&self, n_probe: u32) -> Result<Measured, Fault> {
        let recall = self.recall(n_probe).await?;
        let mut counted = 0;
        let some = &self.questions[..self.questions.len().min(SAMPLE_SCANNED)];
        for question in some {
            let cells = u64::from(n_probe);
            counted += sample_scanned(self.admin, self.setting, question, cells, self.rows).await?;
        }
        let scanned = counted as f64 / (some.len() as u64 * self.rows).max(1) as f64;
        let questions = self.questions.len() as u64;
        Ok(Measured { n_probe, recall, questions, scanned, rows: self.rows, n_lists: self.n_lists })
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
