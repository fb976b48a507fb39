/// A CBOR integer.
pub fn int(number: i64) -> Vec<u8> {
    match u64::try_from(number) {
        Ok(number) => head(0, number),
        Err(_) => head(1, number.unsigned_abs() - 1),
    }
}

/// A CBOR byte string.
pub fn bytes(bytes: &[u8]) -> Vec<u8> {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

/// A CBOR text string.
pub fn text(text: &str) -> Vec<u8> {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// A CBOR map of encoded keys and values.
pub fn map(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let entries_bytes = entries.iter().flat_map(|(key, value)| [key.clone(), value.clone()]);
    std::iter::once(head(5, entries.len() as u64)).chain(entries_bytes).collect::<Vec<_>>().concat()
}

fn head(major: u8, argument: u64) -> Vec<u8> {
    let major = major << 5;
    match argument {
        0..=23 => vec![major | argument as u8],
        24..=0xff => vec![major | 24, argument as u8],
        0x100..=0xffff => [&[major | 25], &(argument as u16).to_be_bytes()[..]].concat(),
        _ => [&[major | 27], &argument.to_be_bytes()[..]].concat(),
    }
}
