use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A certificate authority for the servers of a test.
#[derive(Debug)]
pub struct TestAuthority {
    params: CertificateParams,
    key: KeyPair,
}

/// The certificate of a server and its key, in PEM.
#[derive(Debug)]
pub struct ServerCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// Its key.
    pub key_pem: String,
}

impl TestAuthority {
    /// An authority that nothing trusts yet.
    #[expect(clippy::new_without_default, reason = "each authority is another one")]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for self-signed if its subject and its issuer have the same name.
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        Self { params, key: KeyPair::generate().expect("there is randomness") }
    }

    /// Its own certificate in PEM, for clients that trust it.
    pub fn ca_pem(&self) -> String {
        self.params.self_signed(&self.key).expect("a key signs its own certificate").pem()
    }

    /// A certificate for a server on `localhost`.
    pub fn issue(&self) -> ServerCertificate {
        let key = KeyPair::generate().expect("there is randomness");
        let params = CertificateParams::new(["localhost".to_owned()]).expect("`localhost` is a DNS name");
        let certificate = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key));
        let certificate_pem = certificate.expect("an authority signs certificates").pem();
        ServerCertificate { certificate_pem, key_pem: key.serialize_pem() }
    }
}
