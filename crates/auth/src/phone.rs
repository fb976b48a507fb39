use domain::{PhoneNumber, PhoneNumberError};
use phonenumber::Type;
use phonenumber::metadata::{DATABASE, Metadata};

/// The types of numbers that belong to a person or a company.
const KINDS: [Type; 10] = [
    Type::FixedLine,
    Type::Mobile,
    Type::TollFree,
    Type::PremiumRate,
    Type::SharedCost,
    Type::PersonalNumber,
    Type::Voip,
    Type::Pager,
    Type::Uan,
    Type::Voicemail,
];

/// Parses a phone number that can exist: E.164 format, an assigned calling code, and a length that is valid in one of
/// its countries.
///
/// Number ranges are not checked. Numbering plans change faster than any copy of them, and a wrongly refused number
/// locks a person out; a code for an unassigned number reaches no phone. The text is never normalized: two texts that a
/// normalizer maps to one number would become one account.
pub fn parse_phone(text: &str) -> Result<PhoneNumber, PhoneNumberError> {
    let number: PhoneNumber = text.parse()?;
    let possible = numbering(&number)
        .is_some_and(|numbering| numbering.plans.iter().any(|plan| has_length(plan, numbering.national.len())));
    if possible { Ok(number) } else { Err(PhoneNumberError) }
}

/// A number within the plans of its calling code.
struct Numbering<'a> {
    calling_code: u16,
    national: &'a str,
    plans: Vec<&'static Metadata>,
}

/// No calling code is a prefix of another, so at most one split finds a plan.
fn numbering(number: &PhoneNumber) -> Option<Numbering<'_>> {
    (1..=3).find_map(|code_len| {
        let (code, national) = number.as_str()[1..].split_at(code_len);
        let calling_code = code.parse().ok()?;
        let plans = DATABASE.by_code(&calling_code)?;
        Some(Numbering { calling_code, national, plans })
    })
}

/// The country calling code of a number; 0 if it has none, which `parse_phone` does not admit.
pub(crate) fn calling_code(number: &PhoneNumber) -> u16 {
    numbering(number).map_or(0, |numbering| numbering.calling_code)
}

/// Whether calls and messages to a number are charged at a premium, so that codes for it would pay an attacker.
fn is_premium(number: &PhoneNumber) -> bool {
    let Some(Numbering { national, plans, .. }) = numbering(number) else { return false };
    let is = |kind| plans.iter().any(|plan| plan.descriptors().get(kind).is_some_and(|of| of.is_match(national)));
    is(Type::PremiumRate) && !is(Type::Mobile) && !is(Type::FixedLine)
}

/// The numbers that codes are sent to, by their prefixes in E.164, such as `+49`.
///
/// The longest prefix that matches decides. A number without one is refused if there is a list of allowed prefixes, or
/// if the number is a premium one.
#[derive(Clone, Debug)]
pub struct PhonePrefixes {
    /// Prefixes of numbers that get codes; all other numbers get none, unless it is empty.
    pub allowed: Vec<String>,
    /// Prefixes of numbers that get no codes.
    pub denied: Vec<String>,
}

impl PhonePrefixes {
    /// Satellite phones and international premium numbers, which no one signs up with and which cost most.
    pub const DENIED: &str = "+870,+878,+881,+882,+883,+979";

    pub(crate) fn admit(&self, number: &PhoneNumber) -> bool {
        let longest = |prefixes: &[String]| {
            let matching = prefixes.iter().filter(|prefix| number.as_str().starts_with(prefix.as_str()));
            matching.map(String::len).max()
        };
        match (longest(&self.allowed), longest(&self.denied)) {
            (Some(allowed), denied) => denied.is_none_or(|denied| denied < allowed),
            (None, Some(_)) => false,
            (None, None) => self.allowed.is_empty() && !is_premium(number),
        }
    }
}

impl Default for PhonePrefixes {
    fn default() -> Self {
        Self { allowed: Vec::new(), denied: Self::DENIED.split(',').map(str::to_owned).collect() }
    }
}

fn has_length(plan: &Metadata, digits: usize) -> bool {
    let mut descriptors = KINDS.iter().filter_map(|kind| plan.descriptors().get(*kind));
    descriptors.any(|descriptor| descriptor.possible_length().iter().any(|length| usize::from(*length) == digits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plausible_numbers_are_taken_as_they_are_written() {
        for text in [
            "+15551234567",
            "+15550100001",
            "+14155550123",
            "+4915112345678",
            "+493012345678",
            "+447912345678",
            "+33631966543",
            "+390236618300",
            "+78005553535",
            "+919876543210",
            "+8613800138000",
            "+375291234567",
            "+6421387835",
            "+80012345678",
        ] {
            assert_eq!(parse_phone(text).map(|number| number.as_str().to_owned()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn numbers_that_cannot_exist_are_refused() {
        for (text, why) in [
            ("+1555123456", "too short for its country"),
            ("+155512345678", "too long for its country"),
            ("+330631966543", "a trunk prefix makes it too long for its country"),
            ("+4479123456789", "too long for its country"),
            ("+9991234567", "no such calling code"),
            ("+2101234567", "no such calling code"),
            ("15551234567", "no plus"),
            ("+1 555 123 4567", "not E.164"),
            ("+1555CALLNOW", "not E.164"),
            ("", "empty"),
        ] {
            assert_eq!(parse_phone(text), Err(PhoneNumberError), "{text}: {why}");
        }
    }

    #[test]
    fn premium_satellite_and_denied_numbers_get_no_codes() {
        let list = |text: &str| text.split(',').filter(|prefix| !prefix.is_empty()).map(str::to_owned).collect();
        let default = PhonePrefixes::default();
        let europe = PhonePrefixes { allowed: list("+49,+43,+1900"), denied: list("+4370") };
        for (text, by_default, in_europe) in [
            ("+4915112345678", true, true),
            ("+15551234567", true, false),
            ("+14155550123", true, false),
            ("+78005553535", true, false),
            ("+19002345678", false, true),
            ("+449098790000", false, false),
            ("+881612345678", false, false),
            ("+979123456789", false, false),
            ("+4370123456", true, false),
        ] {
            let number = parse_phone(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((default.admit(&number), europe.admit(&number)), (by_default, in_europe), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_without_a_panic(text in "\\+?[0-9]{0,18}|.*") {
            if let Ok(number) = parse_phone(&text) {
                prop_assert_eq!(number.as_str(), text);
                prop_assert_ne!(calling_code(&number), 0);
                PhonePrefixes::default().admit(&number);
            }
        }
    }
}
