use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{Secret, SessionId, TokenDigest};

use crate::codes::CodeKey;

/// Bytes of each half of the secret part.
const HALF: usize = 16;

/// A refresh token: `rt_`, the session id, `_`, 128 random bits and a MAC of 128 bits over id and bits. The id finds the
/// session, and its stored digest decides whether the token is the valid one. The MAC tells a spent token from one that
/// was never issued, without a list of all spent tokens. Tokens of releases without a MAC have random bits in its place.
pub(crate) struct RefreshToken {
    pub(crate) session_id: SessionId,
    pub(crate) text: Secret,
}

impl RefreshToken {
    pub(crate) fn issue(session_id: SessionId, key: &CodeKey) -> Self {
        let random: [u8; HALF] = rand::random();
        let secret = [random, mac(session_id, &random, key)].concat();
        Self { session_id, text: format!("rt_{session_id}_{}", BASE64_URL_SAFE_NO_PAD.encode(secret)).into() }
    }

    /// Parses a token of the right form. A malformed token is refused here, so that it is not mistaken for a spent one,
    /// which would revoke the session.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (session_id, _) = split(text)?;
        Some(Self { session_id, text: text.to_owned().into() })
    }

    /// Whether this server issued the token, now or earlier. The comparison takes constant time.
    pub(crate) fn is_authentic(&self, key: &CodeKey) -> bool {
        split(self.text.expose()).is_some_and(|(session_id, secret)| {
            let (random, tag) = secret.split_at(HALF);
            verify_slices_are_equal(tag, &mac(session_id, random, key)).is_ok()
        })
    }

    pub(crate) fn digest(&self) -> TokenDigest {
        sha256(self.text.expose())
    }
}

/// The session id and the secret part of a token.
fn split(text: &str) -> Option<(SessionId, [u8; 2 * HALF])> {
    let rest = text.strip_prefix("rt_")?;
    // The first underscore is inside the id; the secret part may contain more.
    let (end, _) = rest.match_indices('_').nth(1)?;
    let session_id: SessionId = rest[..end].parse().ok()?;
    let secret = BASE64_URL_SAFE_NO_PAD.decode(&rest[end + 1..]).ok()?;
    Some((session_id, secret.try_into().ok()?))
}

fn mac(session_id: SessionId, random: &[u8], key: &CodeKey) -> [u8; HALF] {
    let sealed = key.seal("refresh_token", &format!("{session_id} {}", BASE64_URL_SAFE_NO_PAD.encode(random)));
    let mut tag = [0; HALF];
    tag.copy_from_slice(&sealed[..HALF]);
    tag
}

/// 256 random bits in base64url.
pub(crate) fn random_secret() -> Secret {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()).into()
}

/// The digest of a secret of 256 random bits. These cannot be guessed, so the digest needs no key and no salt.
pub(crate) fn sha256(text: &str) -> [u8; 32] {
    digest(&SHA256, text.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> CodeKey {
        CodeKey::new(&[n; 32])
    }

    #[test]
    fn a_token_names_its_session() {
        let session_id = SessionId::from_bytes([7; 16]);
        for _ in 0..100 {
            let token = RefreshToken::issue(session_id, &key(1));
            let parsed = RefreshToken::parse(token.text.expose()).unwrap();
            assert_eq!((parsed.session_id, parsed.digest()), (session_id, token.digest()));
        }
    }

    #[test]
    fn only_an_issued_token_is_authentic() {
        let session_id = SessionId::from_bytes([7; 16]);
        let token = RefreshToken::issue(session_id, &key(1));
        assert!(token.is_authentic(&key(1)));
        assert!(!token.is_authentic(&key(2)));
        let other_session =
            token.text.expose().replace(&session_id.to_string(), &SessionId::from_bytes([8; 16]).to_string());
        assert!(!RefreshToken::parse(&other_session).unwrap().is_authentic(&key(1)));
        let forged = format!("rt_{session_id}_{}", random_secret().expose());
        assert!(!RefreshToken::parse(&forged).unwrap().is_authentic(&key(1)));
    }

    #[test]
    fn a_malformed_token_does_not_parse() {
        let token = RefreshToken::issue(SessionId::from_bytes([7; 16]), &key(1));
        let text = token.text.expose();
        for bad in ["", "rt_", "rt_sess_", &text[3..], &text[..text.len() - 1], &format!("{text}A"), &text[..34]] {
            assert!(RefreshToken::parse(bad).is_none(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_without_a_panic(text in "(rt_)?(sess_)?.*") {
            RefreshToken::parse(&text);
        }
    }
}
