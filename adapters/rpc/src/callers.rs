use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ports::ProcessRole;

/// The secrets that the processes of a fleet accept, each with the roles of its holders.
///
/// It holds digests only, so a process that can check the secret of another role cannot present it. The text has a line
/// for each secret: its SHA-256 digest in hexadecimal, white space, and roles separated by commas. Lines that begin with
/// `#` and empty lines are ignored. Two lines may name the same role, which is how a secret is replaced without an outage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedCallers(Vec<AcceptedCaller>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct AcceptedCaller {
    digest: [u8; SHA256_OUTPUT_LEN],
    roles: Vec<ProcessRole>,
}

/// A line that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptedCallersError {
    /// The line is not a digest and roles.
    #[error("line {line} is not a SHA-256 digest in hexadecimal, a space, and roles separated by commas")]
    Line {
        /// The number of the line, from 1.
        line: usize,
    },
    /// There is no line with a digest.
    #[error("it lists no secret")]
    Empty,
}

impl AcceptedCallers {
    /// Parses the list.
    pub fn parse(text: &str) -> Result<Self, AcceptedCallersError> {
        let mut callers = vec![];
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if !text.is_empty() && !text.starts_with('#') {
                callers.push(parse_line(text).ok_or(AcceptedCallersError::Line { line })?);
            }
        }
        if callers.is_empty() { Err(AcceptedCallersError::Empty) } else { Ok(Self(callers)) }
    }

    /// The roles of the holder of a secret; `None` if the secret is not listed.
    pub fn roles(&self, secret: &[u8]) -> Option<&[ProcessRole]> {
        let presented = digest(&SHA256, secret);
        let found = self.0.iter().find(|caller| verify_slices_are_equal(&caller.digest, presented.as_ref()).is_ok());
        found.map(|caller| &*caller.roles)
    }
}

fn parse_line(text: &str) -> Option<AcceptedCaller> {
    let (digest, roles) = text.split_once(char::is_whitespace)?;
    let role = |name: &str| ProcessRole::ALL.into_iter().find(|role| role.name() == name.trim());
    Some(AcceptedCaller { digest: parse_digest(digest)?, roles: roles.split(',').map(role).collect::<Option<_>>()? })
}

fn parse_digest(text: &str) -> Option<[u8; SHA256_OUTPUT_LEN]> {
    if text.len() != 2 * SHA256_OUTPUT_LEN || !text.is_ascii() {
        return None;
    }
    let mut digest = [0; SHA256_OUTPUT_LEN];
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use ProcessRole::{Api, Gateway};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// The digest of another secret, between lines that are ignored.
    const LIST: &str = "\
# written by hand
00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff  api, gateway

";

    fn hex(secret: &str) -> String {
        digest(&SHA256, secret.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_listed_secret_has_its_roles_and_another_has_none() {
        let list = format!("{LIST}{} gateway\n{} api,gateway", hex("of gateways"), hex("of both").to_uppercase());
        let callers = AcceptedCallers::parse(&list).unwrap();
        assert_eq!(callers.roles(b"of gateways"), Some(&[Gateway][..]));
        assert_eq!(callers.roles(b"of both"), Some(&[Api, Gateway][..]));
        assert_eq!(callers.roles(b"of nobody"), None);
        assert_eq!(callers.roles(hex("of gateways").as_bytes()), None, "a digest is not a secret");
    }

    #[test]
    fn a_bad_line_is_named_and_an_empty_list_refused() {
        assert_eq!(AcceptedCallers::parse("# none\n\n"), Err(AcceptedCallersError::Empty));
        let digest = hex("of gateways");
        for line in [
            "gateway",
            &digest,
            &format!("{digest} admin"),
            &format!("{digest} "),
            &format!("{}é gateway", &digest[2..]),
        ] {
            let list = format!("{LIST}{line}\n");
            assert_eq!(AcceptedCallers::parse(&list), Err(AcceptedCallersError::Line { line: 4 }), "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_list_is_refused_or_accepts_other_secrets(bytes in damage::bytes(select(vec![
            LIST.as_bytes().to_vec(),
            format!("{} gateway\n", hex("of gateways")).into_bytes(),
        ]))) {
            if let Ok(Ok(callers)) = str::from_utf8(&bytes).map(AcceptedCallers::parse) {
                prop_assert!(callers.roles(b"of nobody").is_none());
            }
        }
    }
}
