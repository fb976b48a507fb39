use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{SessionId, TokenDigest};

use crate::Secret;

/// A refresh token: `rt_`, its session's id, `_`, and 256 random bits. The id finds the session, the bits open it.
pub(crate) struct RefreshToken {
    pub(crate) session_id: SessionId,
    pub(crate) text: Secret,
}

impl RefreshToken {
    pub(crate) fn random(session_id: SessionId) -> Self {
        Self { session_id, text: format!("rt_{session_id}_{}", Secret::random().expose()).into() }
    }

    /// A token of the right form. A mutilated one is told apart here, so that it is refused and does not pass for a
    /// spent one, which would end the session.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("rt_")?;
        // The first underscore is inside the id; the random part may have more.
        let (end, _) = rest.match_indices('_').nth(1)?;
        let session_id: SessionId = rest[..end].parse().ok()?;
        let secret = BASE64_URL_SAFE_NO_PAD.decode(&rest[end + 1..]).ok()?;
        (secret.len() == 32).then(|| Self { session_id, text: text.to_owned().into() })
    }

    pub(crate) fn digest(&self) -> TokenDigest {
        sha256(self.text.expose())
    }
}

/// The digest of a secret of 256 random bits. Nobody guesses those, so it needs no key and no salt.
pub(crate) fn sha256(text: &str) -> [u8; 32] {
    digest(&SHA256, text.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_names_its_session() {
        let session_id = SessionId::from_bytes([7; 16]);
        for _ in 0..100 {
            let token = RefreshToken::random(session_id);
            let parsed = RefreshToken::parse(token.text.expose()).unwrap();
            assert_eq!((parsed.session_id, parsed.digest()), (session_id, token.digest()));
        }
    }

    #[test]
    fn a_mutilated_token_is_not_one() {
        let token = RefreshToken::random(SessionId::from_bytes([7; 16]));
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
