//! What a schedule is given as: how often or when, what its event says, and whether the agent runs then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ingest_checks::moment;
use crate::clock::{iso8601, unix_ms_of};
use crate::error::{Error, Result};
use crate::limits::{SCHEDULE_AT_MS_MAX, SCHEDULE_BYTES_MAX, SCHEDULE_EVERY_MS};
use crate::memory::schedule::{Schedule, schedule_key};
use crate::policy::{Scope, check_name};

/// Body of `PUT /v1/agents/{agent}/schedules/{name}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSchedule {
    /// Fires again and again, so far apart, in milliseconds; the first time so long after it was given.
    #[serde(default)]
    #[schemars(range(min = 1000, max = 31_622_400_000_u64))]
    pub every_ms: Option<u64>,
    /// Fires once, then: YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ; at once if that is past.
    #[serde(default)]
    pub at: Option<String>,
    /// What its event says.
    pub content: String,
    /// Whether the agent runs when it fires, where a model is configured.
    #[serde(default)]
    pub run: bool,
}

impl PutSchedule {
    /// The same, checked beyond its types; a fault names the argument.
    pub fn checked(self) -> Result<Self> {
        let (least, most) = SCHEDULE_EVERY_MS;
        match (self.every_ms, &self.at) {
            (Some(_), Some(_)) | (None, None) => {
                return Err(Error::argument("every_ms", "give either every_ms or at"));
            }
            (Some(every_ms), None) if every_ms < least || every_ms > most => {
                return Err(Error::argument("every_ms", format!("use {least} to {most}")));
            }
            (Some(_), None) => {}
            (None, Some(at)) => {
                at_ms(at)?;
            }
        }
        if self.content.is_empty() || self.content.len() > SCHEDULE_BYTES_MAX {
            return Err(Error::argument("content", format!("use 1 to {SCHEDULE_BYTES_MAX} bytes")));
        }
        Ok(self)
    }

    /// The schedule that it makes, but for what the database knows better: its next moment, and what came of it so far.
    pub fn schedule(&self, scope: &Scope, name: &str, now_ms: u64) -> Result<Schedule> {
        check_name("name", name)?;
        Ok(Schedule {
            key: schedule_key(scope.key(), name),
            agent_id: scope.key().to_owned(),
            tenant: scope.tenant().to_owned(),
            name: name.to_owned(),
            every_ms: self.every_ms,
            at_ms: self.at.as_deref().map(at_ms).transpose()?,
            content: self.content.clone(),
            run: self.run,
            due_ms: None,
            look_ms: None,
            failures: 0,
            fired: 0,
            missed: 0,
            last: None,
            running: None,
            created_at: iso8601(now_ms),
            updated_at: iso8601(now_ms),
        })
    }
}

fn at_ms(at: &str) -> Result<u64> {
    let moment = moment("at", at)?;
    let ms = unix_ms_of(&moment).filter(|ms| *ms > 0 && *ms <= SCHEDULE_AT_MS_MAX);
    ms.ok_or_else(|| {
        Error::argument(
            "at",
            format!("no day of the calendar up to {}", iso8601(SCHEDULE_AT_MS_MAX)),
        )
    })
}
