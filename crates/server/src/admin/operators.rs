use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use domain::Timestamp;
use http::header::AUTHORIZATION;
use keyfile::Keys;
use ports::{Clock, SecurityContext, SecurityEvent, SecurityEventKind, SystemClock, error_chain, lock};
use protocol::ErrorCode;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tracing::{error, info};

use super::access::OperatorRole;
use super::error::AdminError;
use super::operators_file::{OperatorsError, OperatorsFile, check_overlap};
use super::{AdminState, AdminToken};

/// The operator with the token of `admin.json`. This operator has all rights and cannot be removed.
pub(super) const ROOT: &str = "root";
/// Interval at which the files are read again.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A request after so much time without one, from the same address, is a sign-in again.
const SIGN_IN_AGAIN: Duration = Duration::from_secs(15 * 60);
/// Most addresses of operators that are remembered. Beyond it, each request may be a sign-in.
const SIGNED_IN_MAX: usize = 1000;

/// The last request of each operator from each address.
type SignIns = BTreeMap<(Arc<str>, Option<IpAddr>), Timestamp>;

/// The operators of this process: `root` with the token of `admin.json`, and those of a file.
///
/// Both files are read again every second, so a change applies without a restart. A file that cannot be used changes
/// nothing and is logged; a missing file of operators has none.
pub(crate) struct Operators {
    data_dir: PathBuf,
    path: PathBuf,
    /// The file is `admin.operators_file`, which this process only reads.
    is_configured: bool,
    current: RwLock<Arc<OperatorCredentials>>,
    /// Serializes changes of the files and of `current`.
    turn: Mutex<()>,
    signed_in: Mutex<SignIns>,
}

/// The contents of both files.
struct OperatorCredentials {
    root: AdminToken,
    named: OperatorsFile,
    /// Every digest that is or was valid.
    digests: Vec<(OperatorTokenDigest, Option<Timestamp>, Operator)>,
}

/// An authenticated operator.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    pub(super) name: Arc<str>,
    pub(super) role: OperatorRole,
    /// Identifies the token without revealing it.
    pub(super) fingerprint: Arc<str>,
}

impl OperatorCredentials {
    fn new(root: AdminToken, named: OperatorsFile) -> Arc<Self> {
        let operator = |name: &str, role, digest: &OperatorTokenDigest| Operator {
            name: name.into(),
            role,
            fingerprint: digest.fingerprint().into(),
        };
        let of_root = root.digests().map(|(digest, expires_at)| {
            let root = operator(ROOT, OperatorRole::Admin, &digest);
            (digest, expires_at, root)
        });
        let of_named = named.operators.iter().flat_map(|stored| {
            let of = move |digest: &OperatorTokenDigest| operator(&stored.name, stored.role, digest);
            stored.tokens.iter().map(move |token| (token.sha256, token.expires_at, of(&token.sha256)))
        });
        let digests = of_root.chain(of_named).collect();
        Arc::new(Self { root, named, digests })
    }
}

impl Operators {
    /// Reads the operators of a process, and creates the token of `root` at the first start. `configured` is
    /// `admin.operators_file`, or empty. Blocks on the disk.
    pub(crate) fn open(data_dir: &Path, configured: &str) -> anyhow::Result<Self> {
        let root = AdminToken::open(data_dir)?;
        let is_configured = !configured.is_empty();
        let path = if is_configured { configured.into() } else { data_dir.join(OperatorsFile::FILE) };
        let named = match OperatorsFile::read(&path)? {
            Some(named) => named,
            None if is_configured => anyhow::bail!("`admin.operators_file`, `{configured}`, does not exist"),
            None => OperatorsFile::default(),
        };
        let current = RwLock::new(OperatorCredentials::new(root, named));
        let (turn, signed_in) = (Mutex::default(), Mutex::default());
        Ok(Self { data_dir: data_dir.to_owned(), path, is_configured, current, turn, signed_in })
    }

    /// Applies changes of the files until it is stopped.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut failed = String::new();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let operators = self.clone();
            let failure = match tokio::task::spawn_blocking(move || operators.reload()).await {
                Ok(Ok(false)) => String::new(),
                Ok(Ok(true)) => {
                    info!("operators reloaded");
                    String::new()
                }
                Ok(Err(failure)) => error_chain(&failure).to_string(),
                Err(failure) => failure.to_string(),
            };
            // Logged once, not every second.
            if failure != failed && !failure.is_empty() {
                error!(error = failure, "could not read the operators; keeping the current ones");
            }
            failed = failure;
        }
    }

    /// Reads both files again. Returns whether they have changed. Blocks on the disk.
    fn reload(&self) -> Result<bool, OperatorsError> {
        let _turn = lock(&self.turn);
        let current = self.current();
        // A token that was moved away stays valid until the restart that replaces it.
        let root = AdminToken::read(&self.data_dir)?.unwrap_or_else(|| current.root.clone());
        let named = OperatorsFile::read(&self.path)?.unwrap_or_default();
        if root == current.root && named == current.named {
            return Ok(false);
        }
        self.replace(OperatorCredentials::new(root, named));
        Ok(true)
    }

    /// The operator of a token that is valid now.
    fn authenticate(&self, token: &str, now: Timestamp) -> Option<Operator> {
        let presented = OperatorTokenDigest::of(token);
        let current = self.current();
        let mut found = None;
        // Compares with every digest, so the duration does not depend on the operator.
        for (digest, expires_at, operator) in &current.digests {
            let is_equal = verify_slices_are_equal(&digest.0, &presented.0).is_ok();
            if is_equal && expires_at.is_none_or(|expires_at| now < expires_at) {
                found = Some(operator.clone());
            }
        }
        found
    }

    /// Notes a request. Returns whether it is the first one in a while from this address.
    fn is_sign_in(&self, operator: &Operator, address: Option<IpAddr>, now: Timestamp) -> bool {
        let mut signed_in = lock(&self.signed_in);
        let is_recent = |at: &Timestamp| now.since(*at) < SIGN_IN_AGAIN;
        if signed_in.len() >= SIGNED_IN_MAX {
            signed_in.retain(|_, at| is_recent(at));
            if signed_in.len() >= SIGNED_IN_MAX {
                signed_in.clear();
            }
        }
        let last = signed_in.insert((operator.name.clone(), address), now);
        !last.as_ref().is_some_and(is_recent)
    }

    pub(super) fn is_configured(&self) -> bool {
        self.is_configured
    }

    pub(super) fn named(&self) -> OperatorsFile {
        self.current().named.clone()
    }

    /// Changes the file of the data directory, and applies the change at once. Blocks on the disk.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut OperatorsFile) -> Result<T, OperatorsError>,
    ) -> Result<T, OperatorsError> {
        let _turn = lock(&self.turn);
        let (changed, named) =
            OperatorsFile::edit(&self.path, |file| change(file).map(|changed| (changed, file.clone())))?;
        self.replace(OperatorCredentials::new(self.current().root.clone(), named));
        Ok(changed)
    }

    /// Writes a new token of `root`, and applies it at once. Blocks on the disk.
    pub(super) fn rotate_root(&self, overlap: Duration, now: Timestamp) -> Result<(), OperatorsError> {
        check_overlap(overlap)?;
        let _turn = lock(&self.turn);
        let root = AdminToken::rotate(&self.data_dir, overlap, now)?;
        self.replace(OperatorCredentials::new(root, self.current().named.clone()));
        Ok(())
    }

    fn current(&self) -> Arc<OperatorCredentials> {
        self.current.read().expect("no holder of this lock panics").clone()
    }

    fn replace(&self, credentials: Arc<OperatorCredentials>) {
        *self.current.write().expect("no holder of this lock panics") = credentials;
    }
}

/// Requires the token of an operator in each request.
pub(super) async fn require(
    State(admin): State<AdminState>,
    mut request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let header = request.headers().get(AUTHORIZATION);
    let presented = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let (now, context) = (SystemClock.now(), SecurityContext::current());
    let Some(operator) = presented.and_then(|token| admin.operators.authenticate(token, now)) else {
        let reason = if presented.is_some() { "unknown_token" } else { "no_token" };
        admin.security.record(SecurityEvent::of(SecurityEventKind::OperatorRefused).failed(reason));
        return Err(AdminError::new(
            ErrorCode::Unauthorized,
            "the request has no `Authorization: Bearer` with the token of an operator; `admin.json` in the data \
             directory has that of `root`",
        ));
    };
    let is_sign_in = admin.operators.is_sign_in(&operator, context.address, now);
    let context = SecurityContext { operator: Some(operator.name.clone()), ..context };
    let serving = async {
        if is_sign_in {
            let event = SecurityEvent::of(SecurityEventKind::OperatorSignIn);
            admin.security.record(event.with("role", operator.role).with("token", &operator.fingerprint));
        }
        request.extensions_mut().insert(operator);
        next.run(request).await
    };
    Ok(context.scope(serving).await)
}

/// SHA-256 of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperatorTokenDigest([u8; 32]);

impl OperatorTokenDigest {
    pub(super) fn of(token: &str) -> Self {
        let digest = digest::digest(&digest::SHA256, token.as_bytes());
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    fn fingerprint(&self) -> String {
        format!("sha256:{}", hex(&self.0[..4]))
    }
}

impl Serialize for OperatorTokenDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for OperatorTokenDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_hex(&text).map(Self).ok_or_else(|| de::Error::custom("a digest is not 64 hexadecimal digits"))
    }
}

/// A token with 256 random bits.
pub(super) fn random_token() -> String {
    hex(&rand::random::<[u8; 32]>())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use domain::Secret;

    use super::*;

    fn token_of(operators: &Operators, name: &str) -> Secret {
        operators.change(|file| file.add(name, OperatorRole::Viewer, SystemClock.now())).unwrap()
    }

    fn root_token(directory: &Path) -> String {
        AdminToken::read(directory).unwrap().unwrap().expose().to_owned()
    }

    #[test]
    fn a_token_leads_to_its_operator_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let operators = Operators::open(directory.path(), "").unwrap();
        let name = |token: &str| operators.authenticate(token, SystemClock.now()).map(|it| it.name.to_string());
        let (ann, root) = (token_of(&operators, "ann"), root_token(directory.path()));
        assert_eq!(name(&root).as_deref(), Some("root"));
        assert_eq!(name(ann.expose()).as_deref(), Some("ann"));
        for wrong in ["", "ann", &ann.expose()[1..], &ann.expose().to_uppercase()] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
        operators.change(|file| file.remove("ann")).unwrap();
        assert_eq!(name(ann.expose()), None);
    }

    #[test]
    fn a_rotated_token_is_valid_for_the_overlap_and_not_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let operators = Operators::open(directory.path(), "").unwrap();
        let (ann, root) = (token_of(&operators, "ann"), root_token(directory.path()));
        let now = SystemClock.now();
        let hour = Duration::from_secs(3600);
        operators.change(|file| file.rotate("ann", hour, now)).unwrap();
        operators.rotate_root(hour, now).unwrap();
        let again = Operators::open(directory.path(), "").unwrap();
        for (operators, old) in
            [(&operators, ann.expose()), (&operators, &root), (&again, ann.expose()), (&again, &root)]
        {
            assert!(operators.authenticate(old, now + Duration::from_secs(3599)).is_some());
            assert!(operators.authenticate(old, now + hour).is_none());
        }
        operators.rotate_root(Duration::ZERO, now).unwrap();
        assert!(operators.authenticate(&root, now).is_none());
        assert!(operators.authenticate(&root_token(directory.path()), now).is_some());
    }

    #[test]
    fn a_changed_file_is_applied_and_an_unusable_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let operators = Operators::open(directory.path(), "").unwrap();
        let path = directory.path().join("operators.json");
        assert!(!operators.reload().unwrap());
        let ann = OperatorsFile::edit(&path, |file| file.add("ann", OperatorRole::Viewer, SystemClock.now())).unwrap();
        let is_known = || operators.authenticate(ann.expose(), SystemClock.now()).is_some();
        assert!(!is_known() && operators.reload().unwrap() && is_known());
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(operators.reload().is_err() && is_known(), "the last usable file counts");
        std::fs::remove_file(&path).unwrap();
        assert!(operators.reload().unwrap() && !is_known());
    }

    #[test]
    fn a_configured_file_has_to_exist() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mounted.json");
        let open = || Operators::open(directory.path(), path.to_str().unwrap());
        assert!(open().is_err());
        let ann = OperatorsFile::edit(&path, |file| file.add("ann", OperatorRole::Viewer, SystemClock.now())).unwrap();
        assert!(open().unwrap().authenticate(ann.expose(), SystemClock.now()).is_some());
    }

    #[test]
    fn a_sign_in_is_the_first_request_in_a_while_from_an_address() {
        let directory = tempfile::tempdir().unwrap();
        let operators = Operators::open(directory.path(), "").unwrap();
        let root = operators.authenticate(&root_token(directory.path()), SystemClock.now()).unwrap();
        let start = Timestamp::from_millis(0);
        let is_sign_in = |address: u32, minutes: u64| {
            let address = IpAddr::from(address.to_be_bytes());
            operators.is_sign_in(&root, Some(address), start + Duration::from_secs(60 * minutes))
        };
        assert_eq!(
            [is_sign_in(1, 0), is_sign_in(1, 14), is_sign_in(1, 28), is_sign_in(1, 43)],
            [true, false, false, true]
        );
        assert!(is_sign_in(2, 43));
        for address in 0..2 * SIGNED_IN_MAX as u32 {
            is_sign_in(address, 43);
        }
        assert!(lock(&operators.signed_in).len() <= SIGNED_IN_MAX);
    }

    #[test]
    fn a_fingerprint_is_the_beginning_of_a_digest() {
        assert_eq!(OperatorTokenDigest::of("abc").fingerprint(), "sha256:ba7816bf");
    }
}
