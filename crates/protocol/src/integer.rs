//! Integers as clients write them. JSON has one kind of number, and some languages write each of them with a fraction.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{I64Deserializer, U64Deserializer};
use serde::de::{self, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The largest integer up to which every integer is a float of its own: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Reads an integer, also one with a fraction of zero (`60.0`).
pub(crate) fn integer<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Integer::deserialize(deserializer).map(|Integer(value)| value)
}

/// Reads an integer as [`integer`] does, or `null`.
pub(crate) fn optional_integer<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Integer<T>>::deserialize(deserializer)?.map(|Integer(value)| value))
}

/// Reads a field that is present as [`optional_integer`] does; serde applies the default to an absent field.
pub(crate) fn present_integer<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    optional_integer(deserializer).map(Some)
}

struct Integer<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Integer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor(PhantomData)).map(Self)
    }
}

struct IntegerVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for IntegerVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        let deserializer: U64Deserializer<E> = value.into_deserializer();
        T::deserialize(deserializer)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        let deserializer: I64Deserializer<E> = value.into_deserializer();
        T::deserialize(deserializer)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<T, E> {
        match value {
            _ if value.fract() != 0.0 || value.abs() > EXACT_MAX => {
                Err(E::invalid_type(Unexpected::Float(value), &self))
            }
            // Exact, because of the arm above.
            ..0.0 => self.visit_i64(value as i64),
            _ => self.visit_u64(value as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Sequence;
    use serde_json::from_str;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Numbers {
        #[serde(default, deserialize_with = "optional_integer")]
        limit: Option<i64>,
        #[serde(deserialize_with = "integer")]
        sequence: Sequence,
        #[serde(default, deserialize_with = "present_integer")]
        ttl: Option<Option<u64>>,
    }

    #[test]
    fn a_fraction_of_zero_is_an_integer() {
        let read =
            |number: &str| from_str(&format!(r#"{{"sequence":{number}}}"#)).map(|Numbers { sequence, .. }| sequence.0);
        for (number, expected) in [
            ("0", 0),
            ("60", 60),
            ("60.0", 60),
            ("60.000", 60),
            ("0.0", 0),
            ("-0.0", 0),
            ("6e1", 60),
            ("600e-1", 60),
            ("9007199254740992.0", 1 << 53),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(read(number).unwrap(), expected, "{number}");
        }
        for (number, error) in [
            ("60.5", "invalid type: floating point `60.5`, expected an integer"),
            ("1e-9", "invalid type: floating point `1e-9`, expected an integer"),
            ("9007199254740994.0", "invalid type: floating point `9007199254740994.0`, expected an integer"),
            ("18446744073709551616", "invalid type: floating point `1.8446744073709552e"),
            ("-1", "invalid value: integer `-1`, expected u64"),
            ("-1.0", "invalid value: integer `-1`, expected u64"),
            ("\"60\"", "invalid type: string \"60\", expected an integer"),
            ("true", "invalid type: boolean `true`, expected an integer"),
            ("null", "invalid type: null, expected an integer"),
            ("[1]", "invalid type: sequence, expected an integer"),
        ] {
            let found = read(number).unwrap_err().to_string();
            assert!(found.starts_with(error), "{number}: {found}");
        }
    }

    #[test]
    fn an_optional_integer_may_be_null_or_absent() {
        let read =
            |rest: &str| from_str::<Numbers>(&format!(r#"{{"sequence":1{rest}}}"#)).map(|read| (read.limit, read.ttl));
        for (rest, expected) in [
            ("", (None, None)),
            (r#","limit":null,"ttl":null"#, (None, Some(None))),
            (r#","limit":-3.0,"ttl":7.0"#, (Some(-3), Some(Some(7)))),
        ] {
            assert_eq!(read(rest).unwrap(), expected, "{rest}");
        }
        for rest in [r#","limit":1.5"#, r#","ttl":1.5"#, r#","ttl":-7.0"#] {
            assert!(read(rest).is_err(), "{rest}");
        }
    }
}
