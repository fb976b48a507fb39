//! The same usage by fewer and by more people.

use super::machine::Machine;
use super::plan::plan;
use super::prices::Prices;
use super::usage::Usage;

/// From a thousand people to more than there are.
const USERS: (f64, f64) = (1e3, 1e10);
/// Points of the curve: eight for each tenfold of people.
const POINTS: u32 = 57;

/// What a usage costs over the number of people, and where something ends.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Users, and dollars in a month.
    pub(super) points: Vec<(f64, f64)>,
    /// Where something ends, in the order of users.
    pub(super) marks: Vec<Mark>,
    pub(super) asked: f64,
}

/// A number of users at which something ends.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) users: f64,
    pub(super) name: String,
}

pub(super) fn over_users(usage: &Usage, machine: &Machine, prices: &Prices) -> Curve {
    let by = |users: f64| plan(&Usage { users, ..usage.clone() }, machine, prices);
    let step = (USERS.1 / USERS.0).powf(1.0 / f64::from(POINTS - 1));
    let points = (0..POINTS).map(|n| USERS.0 * step.powi(n as i32));
    let points = points.map(|users| (users, by(users).dollars_a_month)).collect();
    let here = by(usage.users);
    let mut marks = vec![Mark {
        users: here.one_machine.users_max,
        name: format!("one machine ends: {}", here.one_machine.short_of),
    }];
    // A limit that has nothing to do with the number of people is in the table alone.
    let twice = by(2.0 * usage.users);
    for limit in &here.limits {
        let doubled = twice.limits.iter().find(|other| other.name == limit.name).map_or(0.0, |other| other.used());
        if limit.used() > 0.0 && doubled > 1.5 * limit.used() {
            marks.push(Mark { users: usage.users / limit.used(), name: limit.name.to_owned() });
        }
    }
    marks.sort_by(|one, other| one.users.total_cmp(&other.users));
    Curve { points, marks, asked: usage.users }
}

impl Curve {
    /// Where a number of users is between the first and the last point, from 0 to 1.
    pub(super) fn place(users: f64) -> f64 {
        ((users / USERS.0).log10() / (USERS.1 / USERS.0).log10()).clamp(0.0, 1.0)
    }

    /// The powers of ten between which the dollars are.
    pub(super) fn decades(&self) -> (i32, i32) {
        let dollars = || self.points.iter().map(|(_, dollars)| dollars.max(1.0).log10());
        let low = dollars().fold(f64::MAX, f64::min).floor() as i32;
        (low, (dollars().fold(f64::MIN, f64::max).ceil() as i32).max(low + 1))
    }

    /// The powers of ten of the users.
    pub(super) fn tens() -> impl Iterator<Item = f64> {
        (3..=10).map(|power| 10f64.powi(power))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::capacity::machine::tests::machine;
    use crate::capacity::prices::tests::prices;
    use crate::capacity::usage::tests::usage;

    pub(in crate::capacity) fn curve(arguments: &[&str]) -> Curve {
        over_users(&usage(arguments), &machine(), &prices())
    }

    #[test]
    fn a_curve_only_rises_and_marks_where_one_machine_ends() {
        let curve = curve(&[]);
        assert_eq!((curve.points[0].0, curve.points.len()), (1e3, 57));
        assert!((curve.points[56].0 / 1e10 - 1.0).abs() < 1e-9);
        assert!(curve.points.is_sorted_by(|one, next| one.1 <= next.1));
        assert!(curve.marks[0].name.starts_with("one machine ends"));
        assert!(curve.marks.is_sorted_by(|one, next| one.users <= next.users));
        // The busiest chat does not grow with the people.
        assert!(curve.marks.iter().all(|mark| !mark.name.contains("one chat")));
    }

    #[test]
    fn places_are_on_the_curve_whoever_asks() {
        for (users, place) in [(1.0, 0.0), (1e3, 0.0), (1e10, 1.0), (1e11, 1.0)] {
            assert_eq!(Curve::place(users), place);
        }
    }
}
