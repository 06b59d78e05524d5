//! Runs faiss in a child process: a Python interpreter with `faiss-cpu`, one index and one thread.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::texts::Answers;
use crate::Fault;

/// The Python program of the child process.
const SCRIPT: &str = include_str!("faiss_ivf.py");

/// A child process with an index. Dropping `Faiss` ends the child process.
pub(crate) struct Faiss {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Version of faiss, and the seconds that training the index and adding the vectors took.
    pub(crate) built: Value,
}

impl Faiss {
    /// Starts the child process, which builds an index over the vectors of the first file. The
    /// second file contains the query vectors of later searches.
    pub(crate) fn build(
        python: &Path,
        files: (&Path, &Path),
        (count, dimension, lists, k): (u64, usize, u64, usize),
    ) -> Result<Self, Fault> {
        let mut child = Command::new(python)
            .arg("-c")
            .arg(SCRIPT)
            .arg(files.0)
            .args([count.to_string(), dimension.to_string()])
            .arg(files.1)
            .args([lists.to_string(), k.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", python.display()))?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut faiss = Self { child, input, output, built: Value::Null };
        faiss.built = faiss.line()?;
        Ok(faiss)
    }

    fn line(&mut self) -> Result<Value, Fault> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err("the child with faiss ended; does its Python have faiss-cpu?".into()),
            _ => Ok(serde_json::from_str(&line)?),
        }
    }

    /// Searches for the nearest vectors of every question; each search reads the given number of
    /// lists.
    pub(crate) fn ask(&mut self, probes: u64) -> Result<Answers, Fault> {
        writeln!(self.input, "{}", json!({"probes": probes}))?;
        let answer = self.line()?;
        let numbers = |name: &str| serde_json::from_value::<Vec<f64>>(answer[name].clone());
        Ok(Answers {
            wall: numbers("wall")?,
            cpu: numbers("cpu")?,
            inside: Vec::new(),
            keys: serde_json::from_value(answer["keys"].clone())?,
        })
    }
}

impl Drop for Faiss {
    fn drop(&mut self) {
        // These two calls fail only if the process has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
