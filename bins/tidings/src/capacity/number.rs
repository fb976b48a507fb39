//! Human-readable numbers.

/// A number with three digits and a letter for its thousands.
pub(super) fn short(value: f64) -> String {
    scaled(value, 1000.0, &["", "K", "M", "B", "T", "Q"], "")
}

/// Bytes with three digits, in thousands as disks and networks are sold.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1000.0, &["B", "KB", "MB", "GB", "TB", "PB", "EB"], " ")
}

/// Dollars, without cents for larger amounts.
pub(super) fn dollars(value: f64) -> String {
    format!("${}", short(value))
}

/// A share of something.
pub(super) fn percent(value: f64) -> String {
    match 100.0 * value {
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent if percent < 10_000.0 => format!("{percent:.0} %"),
        percent => format!("{}x", short(percent / 100.0)),
    }
}

fn scaled(value: f64, step: f64, names: &[&str], space: &str) -> String {
    let mut value = value;
    let mut name = 0;
    // Half a unit more would round up to the next thousand.
    while value >= step - 0.5 && name + 1 < names.len() {
        value /= step;
        name += 1;
    }
    let digits = match value {
        // Integers are shown without decimals.
        value if name == 0 && value == value.trunc() => format!("{value:.0}"),
        value if name == 0 && value < 0.005 => "0".to_owned(),
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    };
    format!("{digits}{space}{}", names[name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.001, "0"),
            (0.25, "0.25"),
            (5.0, "5"),
            (12.34, "12.3"),
            (999.4, "999"),
            (999.6, "1.00K"),
            (1234.0, "1.23K"),
            (999_999.0, "1.00M"),
            (3e9, "3.00B"),
            (1e20, "100000Q"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(bytes(1_032.0), "1.03 KB");
        assert_eq!(dollars(54_321.0), "$54.3K");
        assert_eq!((percent(0.012), percent(3.5), percent(250.0)), ("1.2 %".into(), "350 %".into(), "250x".into()));
    }
}
