use aws_lc_rs::digest::{SHA256, digest};

/// This installation as a WebAuthn relying party, `[auth.passkeys]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelyingParty {
    rp_id: String,
    rp_id_hash: [u8; 32],
    name: String,
    origins: Vec<String>,
}

/// Why settings do not describe a relying party.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelyingPartyError {
    /// The id is not a domain in lower case.
    #[error(
        "`rp_id` is `{0}`; it has to be a domain in lower case, such as `chat.example.com`, without scheme and port"
    )]
    RpId(String),
    /// The name is empty or too long.
    #[error("`rp_name` has {0} characters, allowed are 1 to {NAME_CHARS_MAX}")]
    Name(usize),
    /// No origins, or too many.
    #[error("`origins` has {0} entries, allowed are 1 to {ORIGINS_MAX}")]
    OriginCount(usize),
    /// Not an origin in the form in which browsers send it.
    #[error("`origins` has `{0}`; an origin is a scheme, a host in lower case and a port other than the default one")]
    Origin(String),
    /// Browsers offer passkeys on secure pages only.
    #[error("`origins` has `{0}`; an origin has to begin with `https://`, except for the host `localhost`")]
    Insecure(String),
    /// A browser would refuse the id on pages of the origin.
    #[error("`origins` has `{origin}`, whose host is neither `{rp_id}` nor below it")]
    OtherDomain {
        /// The origin.
        origin: String,
        /// The id.
        rp_id: String,
    },
}

const NAME_CHARS_MAX: usize = 64;
const ORIGINS_MAX: usize = 20;
/// Maximum bytes of a domain.
const DOMAIN_BYTES_MAX: usize = 253;

impl RelyingParty {
    /// Checks the settings, so that a browser would accept them.
    pub fn new(rp_id: String, name: String, origins: Vec<String>) -> Result<Self, RelyingPartyError> {
        if !is_domain(&rp_id) {
            return Err(RelyingPartyError::RpId(rp_id));
        }
        let chars = name.chars().count();
        if !(1..=NAME_CHARS_MAX).contains(&chars) {
            return Err(RelyingPartyError::Name(chars));
        }
        if !(1..=ORIGINS_MAX).contains(&origins.len()) {
            return Err(RelyingPartyError::OriginCount(origins.len()));
        }
        for origin in &origins {
            check_origin(origin, &rp_id)?;
        }
        let rp_id_hash = digest(&SHA256, rp_id.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Self { rp_id, rp_id_hash, name, origins })
    }

    /// The domain that passkeys are bound to.
    pub fn rp_id(&self) -> &str {
        &self.rp_id
    }

    /// The name of the installation in the dialogs of browsers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The origins of the pages that may use passkeys.
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    pub(super) fn allows_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == origin)
    }

    pub(super) fn is_rp_id_hash(&self, hash: &[u8]) -> bool {
        hash == self.rp_id_hash
    }
}

fn check_origin(origin: &str, rp_id: &str) -> Result<(), RelyingPartyError> {
    let malformed = || RelyingPartyError::Origin(origin.to_owned());
    let url = reqwest::Url::parse(origin).map_err(|_| malformed())?;
    // Browsers serialize an origin in exactly this form, and it is compared as text.
    if url.origin().ascii_serialization() != origin {
        return Err(malformed());
    }
    let host = url.host_str().ok_or_else(malformed)?;
    if url.scheme() != "https" && !(url.scheme() == "http" && host == "localhost") {
        return Err(RelyingPartyError::Insecure(origin.to_owned()));
    }
    let is_below = host.strip_suffix(rp_id).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if is_below {
        Ok(())
    } else {
        Err(RelyingPartyError::OtherDomain { origin: origin.to_owned(), rp_id: rp_id.to_owned() })
    }
}

/// Whether a text is a domain in the form that browsers use: labels of letters, digits and hyphens, in lower case. An
/// address is not: its last label is a number.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let ends_in_a_number = text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(is_label) && !ends_in_a_number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(rp_id: &str, origins: &[&str]) -> Result<RelyingParty, RelyingPartyError> {
        RelyingParty::new(rp_id.to_owned(), "Tidings".to_owned(), origins.iter().copied().map(str::to_owned).collect())
    }

    #[test]
    fn origins_are_secure_and_below_the_id() {
        for (rp_id, origin) in [
            ("chat.example.com", "https://chat.example.com"),
            ("example.com", "https://chat.example.com"),
            ("example.com", "https://chat.example.com:8443"),
            ("localhost", "http://localhost:8080"),
            ("localhost", "https://localhost"),
        ] {
            assert!(party(rp_id, &[origin]).unwrap().allows_origin(origin), "{origin}");
        }
        for (rp_id, origin) in [
            ("example.com", "http://chat.example.com"),
            ("example.com", "https://example.com/"),
            ("example.com", "https://example.com:443"),
            ("example.com", "https://Example.com"),
            ("example.com", "https://user@example.com"),
            ("example.com", "https://badexample.com"),
            ("example.com", "https://example.com.evil.net"),
            ("chat.example.com", "https://example.com"),
            ("localhost", "http://127.0.0.1:8080"),
            ("example.com", "example.com"),
            ("example.com", ""),
        ] {
            assert!(party(rp_id, &[origin]).is_err(), "{origin}");
        }
    }

    #[test]
    fn an_id_is_a_domain() {
        for bad in ["", "https://example.com", "example.com:443", "Example.com", "127.0.0.1", "a..b", "-a.com", ".com"]
        {
            assert_eq!(party(bad, &["https://example.com"]), Err(RelyingPartyError::RpId(bad.to_owned())));
        }
        assert_eq!(party("example.com", &[]), Err(RelyingPartyError::OriginCount(0)));
        let nameless = RelyingParty::new("localhost".to_owned(), String::new(), vec!["http://localhost".to_owned()]);
        assert_eq!(nameless, Err(RelyingPartyError::Name(0)));
    }

    #[test]
    fn an_origin_is_compared_as_a_whole() {
        let party = party("example.com", &["https://example.com", "https://chat.example.com"]).unwrap();
        assert!(party.allows_origin("https://example.com") && party.allows_origin("https://chat.example.com"));
        for other in ["https://example.com:444", "http://example.com", "https://other.example.com", "null", ""] {
            assert!(!party.allows_origin(other), "{other}");
        }
    }
}
