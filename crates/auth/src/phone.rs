use domain::{PhoneNumber, PhoneNumberError};
use phonenumber::Type;
use phonenumber::metadata::{DATABASE, Metadata};

/// The kinds of numbers a person or a company can be reached at.
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

/// Parses a phone number that can exist: E.164, a calling code that is in use, and a length that numbers of one of its
/// countries have.
///
/// Whether a range is in use today is not asked: numbering plans change faster than any copy of them, a number refused
/// wrongly locks a person out, and one that nobody has never sees its code. The text is never rewritten either. Two
/// texts that a normalizer takes for one number would otherwise be one account.
pub fn parse_phone(text: &str) -> Result<PhoneNumber, PhoneNumberError> {
    let number: PhoneNumber = text.parse()?;
    // No calling code begins with another one, so at most one split finds a plan.
    let possible = (1..=3).any(|code_len| {
        let (code, national) = number.as_str()[1..].split_at(code_len);
        let plans = code.parse().ok().and_then(|code: u16| DATABASE.by_code(&code)).unwrap_or_default();
        plans.iter().any(|plan| has_length(plan, national.len()))
    });
    if possible { Ok(number) } else { Err(PhoneNumberError) }
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

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_without_a_panic(text in "\\+?[0-9]{0,18}|.*") {
            if let Ok(number) = parse_phone(&text) {
                prop_assert_eq!(number.as_str(), text);
            }
        }
    }
}
