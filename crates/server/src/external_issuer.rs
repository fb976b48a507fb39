//! Checks the keys of the external identity provider before a token needs them.

use anyhow::bail;
use auth::{ExternalConfig, JwksSource, KeySetError};
use ports::{ProcessRole, error_chain};
use tracing::warn;

use crate::config::Config;

/// Refuses an issuer with keys that can never be used. An unreachable issuer does not prevent a start: it may answer
/// later.
pub(crate) async fn check(config: &Config) -> anyhow::Result<()> {
    // Other processes ask those with this role.
    if !config.roles()?.contains(&ProcessRole::Api) {
        return Ok(());
    }
    let Some(external) = config.external_issuer()? else { return Ok(()) };
    match external.check().await {
        Ok(_) => Ok(()),
        Err(error @ KeySetError::Unusable(_)) => bail!("{}; {}", error_chain(&error), remedy(&external)),
        Err(error @ KeySetError::Unavailable(_)) => {
            warn!(
                error = %error_chain(&error),
                issuer = external.issuer,
                "tokens of the external issuer are refused until its keys can be fetched"
            );
            Ok(())
        }
    }
}

/// The remedy for keys that cannot be used.
pub(crate) fn remedy(external: &ExternalConfig) -> String {
    match &external.jwks {
        JwksSource::File(_) => "set `auth.external.jwks_file` to a file with the JSON Web Key Set of the issuer".into(),
        JwksSource::Url(url) => {
            format!("set `auth.external.jwks_url` to the JSON Web Key Set of the issuer instead of {url}")
        }
        JwksSource::Discovery(issuer) => format!(
            "set `auth.external.issuer` to the issuer exactly as its tokens name it instead of `{issuer}`, or set \
             `auth.external.jwks_url` or `jwks_file` if it publishes no discovery document"
        ),
    }
}
