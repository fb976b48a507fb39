//! The same usage with fewer and with more users.

use super::machine::MachineSpec;
use super::plan::plan;
use super::prices::Prices;
use super::usage::Usage;

/// From a thousand users to more than the world's population.
const USERS: (f64, f64) = (1e3, 1e10);
/// Points of the curve: eight per decade of users.
const POINTS: u32 = 57;

/// Monthly cost over the number of users, with the user counts at which a limit is reached.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Users and dollars per month.
    pub(super) points: Vec<(f64, f64)>,
    /// User counts at which a limit is reached, ascending.
    pub(super) marks: Vec<LimitMark>,
    pub(super) asked: f64,
}

/// A number of users at which a limit is reached.
#[derive(Clone, Debug)]
pub(super) struct LimitMark {
    pub(super) users: f64,
    pub(super) name: String,
}

pub(super) fn over_users(usage: &Usage, machine: &MachineSpec, prices: &Prices) -> Curve {
    let by = |users: f64| plan(&Usage { users, ..usage.clone() }, machine, prices);
    let step = (USERS.1 / USERS.0).powf(1.0 / f64::from(POINTS - 1));
    let points = (0..POINTS).map(|n| USERS.0 * step.powi(n as i32));
    let points = points.map(|users| (users, by(users).dollars_a_month)).collect();
    let here = by(usage.users);
    let mut marks = vec![LimitMark {
        users: here.one_machine.users_max,
        name: format!("limit of one machine: {}", here.one_machine.short_of),
    }];
    // A limit that does not depend on the number of users appears in the table only.
    let twice = by(2.0 * usage.users);
    for limit in &here.limits {
        let doubled = twice.limits.iter().find(|other| other.name == limit.name).map_or(0.0, |other| other.used());
        if limit.used() > 0.0 && doubled > 1.5 * limit.used() {
            marks.push(LimitMark { users: usage.users / limit.used(), name: limit.name.to_owned() });
        }
    }
    marks.sort_by(|one, other| one.users.total_cmp(&other.users));
    Curve { points, marks, asked: usage.users }
}

impl Curve {
    /// Position of a number of users on the logarithmic axis, from 0 to 1.
    pub(super) fn place(users: f64) -> f64 {
        ((users / USERS.0).log10() / (USERS.1 / USERS.0).log10()).clamp(0.0, 1.0)
    }

    /// The powers of ten that enclose the dollars.
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
        assert!(curve.marks[0].name.starts_with("limit of one machine"));
        assert!(curve.marks.is_sorted_by(|one, next| one.users <= next.users));
        // The load of the busiest chat does not depend on the number of users.
        assert!(curve.marks.iter().all(|mark| !mark.name.contains("one chat")));
    }

    #[test]
    fn axis_positions_stay_within_the_curve() {
        for (users, place) in [(1.0, 0.0), (1e3, 0.0), (1e10, 1.0), (1e11, 1.0)] {
            assert_eq!(Curve::place(users), place);
        }
    }
}
