use domain::{DeniedToken, Restrictions, Suspension, SuspensionReason, Timestamp, TokenIdDigest};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::{Millis, Stored, from_bytes, to_bytes};

#[derive(Serialize, Deserialize)]
struct RestrictionsRow {
    suspension: Option<(Millis, Option<String>)>,
    not_before: Option<Millis>,
    /// The id of each token, the time of its denial, and its expiry.
    denied: Vec<(TokenIdDigest, Millis, Millis)>,
}

impl Stored for Restrictions {
    fn encode(&self) -> Vec<u8> {
        let suspension = self.suspension.as_ref().map(|Suspension { since, reason }| {
            (since.as_millis(), reason.as_ref().map(|reason| reason.as_str().to_owned()))
        });
        let denied = self.denied.iter();
        let denied = denied.map(|token| (token.token_id, token.denied_at.as_millis(), token.expires_at.as_millis()));
        let not_before = self.not_before.map(Timestamp::as_millis);
        to_bytes(&RestrictionsRow { suspension, not_before, denied: denied.collect() })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: RestrictionsRow = from_bytes(bytes)?;
        let suspension = |(since, reason): (Millis, Option<String>)| {
            let reason = reason.map(SuspensionReason::try_from).transpose()?;
            Ok::<_, BoxError>(Suspension { since: Timestamp::from_millis(since), reason })
        };
        let denied = row.denied.into_iter().map(|(token_id, denied_at, expires_at)| DeniedToken {
            token_id,
            denied_at: Timestamp::from_millis(denied_at),
            expires_at: Timestamp::from_millis(expires_at),
        });
        Ok(Self {
            suspension: row.suspension.map(suspension).transpose()?,
            not_before: row.not_before.map(Timestamp::from_millis),
            denied: denied.collect(),
        })
    }
}
