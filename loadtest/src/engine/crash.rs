//! Part f of the engine benchmark: duration of a start after a kill, and size of the data on disk
//! and in main memory.

use serde_json::json;

use super::figures::{Figures, Goal, Row};
use super::target::Target;
use super::texts::{Load, first};
use crate::Fault;
use crate::calls::append_body;

/// Goal: maximum duration of a start after a kill, in seconds.
const START_SECONDS_MAX: f64 = 5.0;
/// Number of inserts right before the kill. The engine answers these inserts without waiting for
/// the disk.
const LAST_INSERTS: usize = 2_000;

/// Kills the engine after writes, restarts the engine, and checks every index.
pub(crate) fn measure(
    target: Target,
    count: u64,
    loaded: &Load,
) -> Result<(Target, Vec<Row>), Fault> {
    let million = 1e6 / count as f64;
    let (resident, peak, anonymous) = loaded.memory_mib;
    let note = format!(
        "{:.0} MB of text; inserted in {:.0} s, view built in {:.0} s; {:.0} MiB of the memory outside mapped files; highest {peak:.0} MiB",
        loaded.text_bytes as f64 / 1e6,
        loaded.insert_seconds,
        loaded.index_seconds,
        anonymous,
    );
    let figure = |what: &str, is: f64, basis, note: String| Row {
        part: 'f',
        what: what.to_owned(),
        engine: Figures::default(),
        other: None,
        basis,
        is: Some(is),
        goal: None,
        note,
    };
    let mut rows = vec![
        figure(
            "disk per million messages, with a persistent index and a view",
            loaded.disk_bytes as f64 / 1e6 * million,
            "MB",
            note,
        ),
        figure("resident memory after the load of all messages", resident, "MiB", String::new()),
    ];
    let mut connection = target.connect()?;
    for number in 0..LAST_INSERTS {
        let body = append_body(number);
        connection.call("POST", "/_api/document/texts?silent=true", &body, &[202])?;
    }
    drop(connection);
    let (target, took) = target.kill_and_start()?;
    let mut connection = target.connect()?;
    let stored = first(&mut connection, "RETURN LENGTH(texts)", &json!({}))?.as_u64().unwrap_or(0);
    if stored != count + LAST_INSERTS as u64 {
        return Err(format!(
            "{stored} documents after the kill instead of {}",
            count + LAST_INSERTS as u64
        )
        .into());
    }
    let last = count - 1;
    let query = "FOR m IN texts FILTER m.n == @n RETURN m._key";
    let by_index = first(&mut connection, query, &json!({"n": last}))?;
    let query = "FOR m IN texts_view SEARCH ANALYZER(m.text == @q, 'plain_words') RETURN m._key";
    let by_view = first(&mut connection, query, &json!({"q": format!("id{last}x")}))?;
    let key = json!(last.to_string());
    if by_index != key || by_view != key {
        return Err(format!("after the kill: index finds {by_index}, view finds {by_view}").into());
    }
    rows.push(Row {
        goal: Some(Goal::AtMost(START_SECONDS_MAX)),
        ..figure(
            "start after kill -9 until the first answer",
            took.as_secs_f64(),
            "seconds",
            format!("{count} messages, and {LAST_INSERTS} unsynced inserts before the kill; all documents are present, index and view answer; files in the page cache"),
        )
    });
    Ok((target, rows))
}
