//! Request body that creates or replaces a schedule: its times, the text of its event, and whether
//! the event starts a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ingest_checks::moment;
use crate::clock::{iso8601, unix_ms_of};
use crate::error::{Error, Result};
use crate::memory::schedule::{Schedule, schedule_key};
use crate::trust::{Scope, check_name};

/// Maximum length of the text of a schedule's event, in bytes.
const SCHEDULE_BYTES_MAX: usize = 16_384;
/// Minimum and maximum time between two ticks of a schedule, in milliseconds: one second, and 366
/// days.
const SCHEDULE_EVERY_MS: (u64, u64) = (1_000, 31_622_400_000);
/// Latest permitted time of a tick, in milliseconds since 1970: the end of the year 2999.
const SCHEDULE_AT_MS_MAX: u64 = 32_503_679_999_999;

/// Body of `PUT /v1/agents/{agent}/schedules/{name}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSchedule {
    /// Interval between the schedule's events in milliseconds; the first event is posted one
    /// interval after this call.
    #[serde(default)]
    #[schemars(range(min = 1000, max = 31_622_400_000_u64))]
    pub every_ms: Option<u64>,
    /// Time of the schedule's only event: YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ. If this time is past,
    /// the event is posted immediately.
    #[serde(default)]
    pub at: Option<String>,
    /// Text of the schedule's event.
    pub content: String,
    /// Whether the schedule's event starts a run of the agent, if a model is configured.
    #[serde(default)]
    pub run: bool,
}

impl PutSchedule {
    /// Checks the rules for arguments that their types do not express; an error names the argument.
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

    /// Returns the schedule that these arguments describe. The database fills in the next tick and
    /// the results of earlier ticks.
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
            format!("not a valid time between 1970 and {}", iso8601(SCHEDULE_AT_MS_MAX)),
        )
    })
}
