//! What each step of a build did, for the answer of a build with `explain`.

use serde_json::{Value, json};

/// The steps of a build, in order.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<Value>);

impl Steps {
    /// Notes a step with its counts.
    pub fn note(&mut self, step: &str, counts: Value) {
        let mut told = json!({"step": step});
        if let (Some(told), Value::Object(counts)) = (told.as_object_mut(), counts) {
            told.extend(counts);
        }
        self.0.push(told);
    }

    /// Returns the steps as a list.
    pub fn told(self) -> Value {
        Value::Array(self.0)
    }
}
