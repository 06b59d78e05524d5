//! Converts between ISO 8601 texts and Unix seconds, for ttl indexes.

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = (shifted + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Unix seconds of `YYYY-MM-DD[(T| )HH:MM[:SS[.fraction]]][Z|±HH:MM]`, or None.
pub(super) fn seconds_of(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let digits = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok()).flatten()
    };
    let (year, month, day) =
        (digits(date.get(..4)?)?, digits(date.get(5..7)?)?, digits(date.get(8..)?)?);
    let dashes = date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-';
    if !dashes || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let midnight = (days_of(year, month, day) * 86_400) as f64;
    let Some(time) = rest.strip_prefix(['T', ' ']) else {
        return rest.is_empty().then_some(midnight);
    };
    let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let mut parts = clock.splitn(3, ':');
    let (hours, minutes) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let seconds = parts.next().map_or(Some(0.0), |seconds| seconds.parse::<f64>().ok())?;
    if hours > 23 || minutes > 59 || !(0.0..60.0).contains(&seconds) {
        return None;
    }
    Some(midnight + (hours * 3600 + minutes * 60) as f64 + seconds - offset_of(zone)?)
}

fn offset_of(zone: &str) -> Option<f64> {
    let sign = match zone.chars().next() {
        None | Some('Z') => return (zone.len() <= 1).then_some(0.0),
        Some('+') => 1.0,
        _ => -1.0,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    Some(sign * (hours.parse::<u32>().ok()? * 3600 + minutes.parse::<u32>().ok()? * 60) as f64)
}

/// The UTC text of Unix seconds, truncated to whole seconds.
pub(super) fn text_of(seconds: f64) -> String {
    let whole = seconds.floor() as i64;
    let (year, month, day) = date_of(whole.div_euclid(86_400));
    let rest = whole.rem_euclid(86_400);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_texts_and_seconds_agree() {
        let moments = [
            ("1970-01-01", 0.0),
            ("1970-01-01T00:00:01.5Z", 1.5),
            ("2000-02-29T12:00:00Z", 951_825_600.0),
            ("2026-11-21T23:32:19+02:00", 1_795_296_739.0),
            ("1969-12-31 23:59", -60.0),
        ];
        for (text, seconds) in moments {
            assert_eq!(seconds_of(text), Some(seconds), "{text}");
        }
        for day in (-200_000..200_000).step_by(97) {
            let (year, month, date) = date_of(day);
            assert_eq!(days_of(year, month, date), day);
        }
        assert_eq!(text_of(951_825_600.9), "2000-02-29T12:00:00Z");
        for text in ["", "abc", "2000-13-01", "2000-01-01T25:00Z", "2000-01-01x", "20000101T000000"]
        {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }
}
