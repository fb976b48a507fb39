//! The certificates of our listeners: read from files, presented in handshakes, and reloaded when the files change.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::digest::{SHA256, digest};
use domain::Timestamp;
use metrics::gauge;
use ports::{Clock, SystemClock, error_chain};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::signal::unix::Signal;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::config::Config;

/// Interval at which the files are checked. Renewal tools rename files, or the links to them.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Most bytes in a file. Certificate chains have some thousands.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is over {FILE_BYTES_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    #[error("`{}` has no {what} in PEM", path.display())]
    NotPem {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: pem::Error,
    },
    #[error("the certificate in `{}` is damaged", path.display())]
    Damaged { path: PathBuf },
    #[error("the key in `{}` cannot be used with the certificate", path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
    #[error("the certificate in `{}` has expired at {at}", path.display())]
    Expired { path: PathBuf, at: Timestamp },
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateFiles {
    /// The listener that uses them, by its name in metrics.
    pub(crate) listener: &'static str,
    /// The configuration table that names them.
    pub(crate) table: &'static str,
    cert: PathBuf,
    key: PathBuf,
}

impl CertificateFiles {
    /// The files that a configuration names, for the public listener and for the admin listener.
    pub(crate) fn of(config: &Config) -> [Option<Self>; 2] {
        let of = |listener, table, cert: &str, key: &str| {
            (!cert.is_empty()).then(|| Self { listener, table, cert: cert.into(), key: key.into() })
        };
        let (tls, admin) = (&config.tls, &config.admin);
        [of("public", "tls", &tls.cert_file, &tls.key_file), of("admin", "admin", &admin.cert_file, &admin.key_file)]
    }

    /// Reads both files. Blocks on the disk.
    fn read(&self) -> Result<PemContents, TlsError> {
        Ok(PemContents { cert: read(&self.cert)?, key: read(&self.key)? })
    }

    /// The expiry of the certificate, if both files can be used. Blocks on the disk.
    pub(crate) fn expires_at(&self) -> Result<Timestamp, TlsError> {
        Ok(self.pair(&self.read()?)?.expires_at)
    }

    fn pair(&self, contents: &PemContents) -> Result<LoadedCertificate, TlsError> {
        let not_pem = |path: &Path, what| {
            let path = path.to_owned();
            move |source| TlsError::NotPem { path, what, source }
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&contents.cert)
            .collect::<Result<_, _>>()
            .map_err(not_pem(&self.cert, "certificate"))?;
        let Some(first) = chain.first() else {
            return Err(not_pem(&self.cert, "certificate")(pem::Error::NoItemsFound));
        };
        let expires_at = not_after(first).ok_or_else(|| TlsError::Damaged { path: self.cert.clone() })?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(not_pem(&self.key, "key"))?;
        let certified = CertifiedKey::from_der(chain, key, &provider())
            .map_err(|source| TlsError::Unusable { path: self.key.clone(), source })?;
        Ok(LoadedCertificate { certified: Arc::new(certified), expires_at })
    }
}

/// The bytes of both files, including the key: never stored and never printed.
struct PemContents {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl PemContents {
    /// Identifies these contents.
    fn digest(&self) -> [u8; 32] {
        let both = [digest(&SHA256, &self.cert), digest(&SHA256, &self.key)].map(|one| one.as_ref().to_vec()).concat();
        digest(&SHA256, &both).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

struct LoadedCertificate {
    certified: Arc<CertifiedKey>,
    expires_at: Timestamp,
}

/// The certificate of a listener. Each handshake presents the current one; open connections keep theirs.
#[derive(Debug)]
pub(crate) struct ListenerCertificate {
    files: CertificateFiles,
    shown: RwLock<Arc<CertifiedKey>>,
    /// The digest of the last contents tried, so that unusable contents are tried and logged only once.
    tried: RwLock<[u8; 32]>,
}

impl ListenerCertificate {
    /// Opens the certificate of usable files. An expired one is presented anyway, because refusing to start would be no
    /// better. Blocks on the disk.
    pub(crate) fn open(files: CertificateFiles) -> Result<Arc<Self>, TlsError> {
        let contents = files.read()?;
        let pair = files.pair(&contents)?;
        if pair.expires_at <= SystemClock.now() {
            let (listener, expired_at) = (files.listener, pair.expires_at);
            warn!(listener, %expired_at, "the certificate has expired; clients refuse it");
        }
        show_expiry(&files, pair.expires_at);
        let (shown, tried) = (RwLock::new(pair.certified), RwLock::new(contents.digest()));
        Ok(Arc::new(Self { files, shown, tried }))
    }

    /// A TLS acceptor that presents this certificate.
    pub(crate) fn acceptor(self: &Arc<Self>) -> anyhow::Result<TlsAcceptor> {
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_cert_resolver(self.clone());
        // A WebSocket needs HTTP/1.1, and clients make few other requests.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Loads the files again and presents their certificate if it has changed and can be used. Blocks on the disk.
    fn renew(&self) -> Result<CertificateRenewal, TlsError> {
        let contents = self.files.read()?;
        let found = contents.digest();
        let known = std::mem::replace(&mut *self.tried.write().expect("no holder of this lock panics"), found);
        if known == found {
            return Ok(CertificateRenewal::Same);
        }
        let LoadedCertificate { certified, expires_at } = self.files.pair(&contents)?;
        if expires_at <= SystemClock.now() {
            return Err(TlsError::Expired { path: self.files.cert.clone(), at: expires_at });
        }
        *self.shown.write().expect("no holder of this lock panics") = certified;
        show_expiry(&self.files, expires_at);
        Ok(CertificateRenewal::Other { expires_at })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum CertificateRenewal {
    Same,
    Other { expires_at: Timestamp },
}

impl ResolvesServerCert for ListenerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown.read().expect("no holder of this lock panics").clone())
    }
}

/// Opens the certificates that a configuration names, for the public and the admin listener. Blocks on the disk.
pub(crate) fn open(config: &Config) -> anyhow::Result<[Option<Arc<ListenerCertificate>>; 2]> {
    let open = |files: Option<CertificateFiles>| files.map(ListenerCertificate::open).transpose();
    let [public, admin] = CertificateFiles::of(config);
    Ok([open(public).context("`[tls]` is not usable")?, open(admin).context("`[admin]` is not usable")?])
}

/// Reloads certificates when their files change, and on SIGHUP, until it is stopped.
pub(crate) async fn keep(certificates: Vec<Arc<ListenerCertificate>>, mut hangups: Signal) {
    loop {
        // The signal stream does not end while the process lives.
        tokio::select! { () = tokio::time::sleep(LOOK_INTERVAL) => (), _ = hangups.recv() => () }
        for certificate in &certificates {
            let (listener, looked) = (certificate.files.listener, certificate.clone());
            match tokio::task::spawn_blocking(move || looked.renew()).await {
                Ok(Ok(CertificateRenewal::Same)) => {}
                Ok(Ok(CertificateRenewal::Other { expires_at })) => {
                    info!(listener, %expires_at, "new certificate loaded")
                }
                Ok(Err(failure)) => {
                    warn!(
                        listener,
                        error = %error_chain(&failure),
                        "could not use the new certificate; keeping the current one"
                    );
                }
                Err(failure) => {
                    warn!(
                        listener,
                        error = %error_chain(&failure),
                        "could not check the certificate; retrying at the next interval"
                    );
                }
            }
        }
    }
}

/// The expiry of a certificate: `notAfter` of its validity (RFC 5280, 4.1). Parsed by hand, to avoid an X.509 library
/// for this one date.
fn not_after(der: &[u8]) -> Option<Timestamp> {
    let (SEQUENCE, certificate, _) = element(der)? else { return None };
    let (SEQUENCE, to_be_signed, _) = element(certificate)? else { return None };
    let (first, _, behind_first) = element(to_be_signed)?;
    // The version is optional; the serial number, the algorithm and the issuer are not.
    let mut rest = if first == VERSION { behind_first } else { to_be_signed };
    for _ in 0..3 {
        (_, _, rest) = element(rest)?;
    }
    let (SEQUENCE, validity, _) = element(rest)? else { return None };
    let (_, _, behind_not_before) = element(validity)?;
    let (tag, time, _) = element(behind_not_before)?;
    let digits = str::from_utf8(time).ok()?.strip_suffix('Z').filter(|digits| digits.is_ascii())?;
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) if digits < "50" => (format!("20{}", &digits[..2]), &digits[2..]),
        (UTC_TIME, 12) => (format!("19{}", &digits[..2]), &digits[2..]),
        (GENERALIZED_TIME, 14) => (digits[..4].to_owned(), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| &rest[at..at + 2]);
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}.000Z").parse().ok()
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The first element of DER: its tag, its value, and the remaining bytes.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // The next bytes hold the length. `0x80` is the indefinite form, which is not DER, and no certificate needs
        // more than four bytes.
        0x80 | 0x85.. => return None,
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
        }
    };
    let (value, rest) = rest.split_at_checked(len)?;
    Some((*tag, value, rest))
}

fn show_expiry(files: &CertificateFiles, expires_at: Timestamp) {
    gauge!("tidings_tls_certificate_expires_seconds", "listener" => files.listener).set(expires_at.as_secs() as f64);
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::TooLong { path: path.to_owned() });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

    struct World {
        directory: TempDir,
        files: CertificateFiles,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
            let files = CertificateFiles { listener: "public", table: "tls", cert, key };
            Self { directory, files }
        }

        /// Replaces a file as renewal tools do: writes a new file, then renames it.
        fn put(&self, path: &Path, pem: &str) {
            let beside = self.directory.path().join("new");
            fs::write(&beside, pem).unwrap();
            fs::rename(beside, path).unwrap();
        }

        fn put_pair(&self, year: i32) {
            let (cert, key) = pair(year);
            self.put(&self.files.cert, &cert);
            self.put(&self.files.key, &key);
        }
    }

    fn pair(year: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn shown(certificate: &ListenerCertificate) -> Arc<CertifiedKey> {
        certificate.shown.read().unwrap().clone()
    }

    fn at(year: i32) -> Timestamp {
        format!("{year}-01-01T00:00:00.000Z").parse().unwrap()
    }

    #[test]
    fn a_changed_pair_is_presented_and_an_unchanged_one_is_left_alone() {
        let world = World::new();
        world.put_pair(2040);
        let certificate = ListenerCertificate::open(world.files.clone()).unwrap();
        assert_eq!(world.files.expires_at().unwrap(), at(2040));
        assert_eq!(certificate.renew().unwrap(), CertificateRenewal::Same);
        let before = shown(&certificate);
        world.put_pair(2041);
        assert_eq!(certificate.renew().unwrap(), CertificateRenewal::Other { expires_at: at(2041) });
        assert_ne!(shown(&certificate).cert, before.cert);
        assert_eq!(certificate.renew().unwrap(), CertificateRenewal::Same);
    }

    #[test]
    fn an_unusable_pair_is_refused_once_and_the_old_pair_stays() {
        let world = World::new();
        world.put_pair(2040);
        let certificate = ListenerCertificate::open(world.files.clone()).unwrap();
        let before = shown(&certificate);
        let (cert, key) = pair(2041);
        let (expired, its_key) = pair(2020);
        let other_key = pair(2042).1;
        for (cert, key, expected) in [
            (&*cert, &*other_key, "cannot be used with the certificate"),
            ("no certificate", &*key, "has no certificate in PEM"),
            (&*cert, "no key", "has no key in PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &*key, "is damaged"),
            ("", &*key, "has no certificate in PEM"),
            (&*expired, &*its_key, "has expired at 2020-01-01T00:00:00.000Z"),
        ] {
            world.put(&world.files.cert, cert);
            world.put(&world.files.key, key);
            let refused = certificate.renew().unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
            assert_eq!(certificate.renew().unwrap(), CertificateRenewal::Same, "it was tried: {expected}");
            assert!(Arc::ptr_eq(&shown(&certificate), &before), "{expected}");
        }
        fs::remove_file(&world.files.key).unwrap();
        assert!(matches!(certificate.renew(), Err(TlsError::Unreadable { .. })));
        fs::write(&world.files.key, vec![b'a'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(matches!(certificate.renew(), Err(TlsError::TooLong { .. })));
        world.put_pair(2043);
        assert_eq!(certificate.renew().unwrap(), CertificateRenewal::Other { expires_at: at(2043) });
    }

    #[test]
    fn both_time_formats_are_parsed() {
        for year in [2021, 2049, 2050, 2051, 9999] {
            let der = CertificateDer::from_pem_slice(pair(year).0.as_bytes()).unwrap();
            assert_eq!(not_after(&der), Some(at(year)));
        }
    }

    proptest::proptest! {
        #[test]
        fn a_damaged_certificate_is_parsed_without_a_panic(at in 0_usize..300, byte: u8, len in 0_usize..600) {
            let mut der = CertificateDer::from_pem_slice(pair(2040).0.as_bytes()).unwrap().to_vec();
            der[at] = byte;
            der.truncate(len);
            not_after(&der);
        }
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let world = World::new();
        let (cert, key) = pair(2040);
        world.put(&world.files.cert, &cert);
        world.put(&world.files.key, &format!("{key}\n-----BEGIN PRIVATE KEY-----\n!secret!\n"));
        let certificate = ListenerCertificate::open(world.files.clone()).unwrap();
        assert!(!format!("{certificate:?}").contains(&key[40..60]));
        world.put(&world.files.key, "-----BEGIN PRIVATE KEY-----\n!secret!\n-----END PRIVATE KEY-----\n");
        let refused = certificate.renew().unwrap_err();
        let source = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        assert!(!format!("{refused} {source}").contains("secret"), "{refused} {source}");
    }
}
