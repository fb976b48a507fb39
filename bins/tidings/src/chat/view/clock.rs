use std::time::Duration;

use domain::Timestamp;
use jiff::Zoned;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A timestamp in the local time zone.
fn local(at: Timestamp, zone: &TimeZone) -> Zoned {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_zoned(zone.clone())
}

/// The local date.
pub(crate) fn day(at: Timestamp, zone: &TimeZone) -> Date {
    local(at, zone).date()
}

/// The hour and minute, as `14:30`.
pub(crate) fn time(at: Timestamp, zone: &TimeZone) -> String {
    local(at, zone).strftime("%H:%M").to_string()
}

/// A date in words: today, yesterday, or the full date.
pub(crate) fn day_name(day: Date, today: Date) -> String {
    if day == today {
        "Today".to_owned()
    } else if Some(day) == today.yesterday().ok() {
        "Yesterday".to_owned()
    } else {
        day.strftime("%A, %-d %B %Y").to_string()
    }
}

/// Remaining time, in its largest unit.
pub(crate) fn left(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_local_time_zone() {
        let at = Timestamp::from_millis(1_769_812_200_000);
        let zurich = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!((time(at, &TimeZone::UTC), time(at, &zurich)), ("22:30".to_owned(), "23:30".to_owned()));
        assert_eq!(day_name(day(at, &zurich), day(at, &zurich)), "Today");
        let later = at + Duration::from_secs(3600);
        assert_eq!(day_name(day(at, &zurich), day(later, &zurich)), "Yesterday");
        assert_eq!(day_name(day(at, &zurich), day(Timestamp::MAX, &TimeZone::UTC)), "Friday, 30 January 2026");
    }

    #[test]
    fn remaining_time_is_shown_in_its_largest_unit() {
        let told: Vec<String> = [0, 59, 60, 3599, 3600, 86_399, 172_800].map(|s| left(Duration::from_secs(s))).into();
        assert_eq!(told, ["0s", "59s", "1m", "59m", "1h", "23h", "2d"]);
    }
}
