use std::sync::Arc;

use domain::DeviceId;
use ports::{Identity, IdentityError, ProcessRole, error_chain};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tidings_rpc::{
    CertificateNames, Directory, FleetSecret, RemoteIdentity, RoleError, RpcServices, Security, certificate_name,
};

use crate::crossing::Says;
use crate::world::{CallingProcess, FleetProcess, World, config, secret, soon};

/// The error that a caller gets from a process, each with its own security settings.
async fn heard(of_process: Security, of_caller: Security) -> String {
    let world = World::new();
    let says = Says::identity(|| Err(IdentityError::TokenRevoked));
    let services = RpcServices { identity: Some(Arc::new(says)), ..RpcServices::default() };
    let process = FleetProcess::start("a", of_process, || services);
    world.list.add(ProcessRole::Api, &process.peer);
    let caller = CallingProcess::with(&world, of_caller, config(), None).await;
    let identity = RemoteIdentity::new(caller.directory.clone());
    let error = soon(identity.identify("token", DeviceId::from_bytes([1; 16]))).await.unwrap_err();
    error_chain(&error).to_string()
}

#[tokio::test]
async fn the_same_secret_lets_in_and_another_is_refused_with_the_remedy() {
    assert_eq!(heard(secret(), secret()).await, "the session of this token has ended");
    let another = Security::Secret("the secret of another fleet".to_owned().try_into().unwrap());
    assert_eq!(
        heard(secret(), another).await,
        "sign-in is unavailable: the store is unavailable: process `a` rejects our secret; give all processes \
         the same one, or list it in `rpc.callers_file` there"
    );
}

/// A certificate authority.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { params, key: KeyPair::generate().unwrap() }
    }

    fn ca_pem(&self) -> Vec<u8> {
        self.params.self_signed(&self.key).unwrap().pem().into_bytes()
    }

    /// The security settings of a process with a certificate of this CA for `host`, and `trusted` as its trusted CA.
    fn security(&self, host: &str, trusted: &Self) -> Security {
        self.issue(vec![host.to_owned()], trusted, CertificateNames::Hosts)
    }

    /// The security settings of a process with a certificate for these roles.
    fn for_roles(&self, roles: &[ProcessRole]) -> Security {
        self.issue(roles.iter().map(|role| certificate_name(*role)).collect(), self, CertificateNames::Roles)
    }

    fn issue(&self, dns_names: Vec<String>, trusted: &Self, names: CertificateNames) -> Security {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = CertificateParams::new(dns_names).unwrap().signed_by(&key, &issuer).unwrap();
        Security::MutualTls {
            ca_pem: trusted.ca_pem(),
            cert_pem: certificate.pem().into_bytes(),
            key_pem: key.serialize_pem().into_bytes(),
            names,
        }
    }
}

#[tokio::test]
async fn certificates_of_one_authority_let_in_and_others_are_refused_with_the_remedy() {
    let (fleet, stranger) = (Authority::new(), Authority::new());
    let process = || fleet.security("localhost", &fleet);
    assert_eq!(heard(process(), fleet.security("elsewhere", &fleet)).await, "the session of this token has ended");
    let strangers = [
        ("a process of a stranger", stranger.security("localhost", &fleet), process()),
        ("a process on another host", fleet.security("elsewhere", &fleet), process()),
        ("a caller of a stranger", process(), stranger.security("localhost", &fleet)),
        ("a process that a caller does not trust", process(), fleet.security("localhost", &stranger)),
    ];
    for (who, of_process, of_caller) in strangers {
        let text = heard(of_process, of_caller).await;
        assert!(text.contains("reject each other's certificates; give all"), "{who}: {text}");
    }
    let text = heard(process(), secret()).await;
    assert!(text.starts_with("sign-in is unavailable: the store is unavailable: process `a`"), "{text}");
}

#[tokio::test]
async fn an_invalid_certificate_is_reported_at_once_and_a_key_never_shown() {
    let security = Security::MutualTls {
        ca_pem: b"none".to_vec(),
        cert_pem: b"none".to_vec(),
        key_pem: b"hunter2 hunter2 hunter2".to_vec(),
        names: CertificateNames::Roles,
    };
    assert!(!format!("{security:?}").contains("hunter2"));
    let Err(error) = Directory::new(World::new().list, security, config()) else { panic!("there is no key") };
    assert_eq!(error.to_string(), "the certificates or the key of the fleet cannot be used");
    assert!(FleetSecret::try_from("hunter2".to_owned()).is_err());
}

#[tokio::test]
async fn a_certificate_is_good_for_the_roles_that_it_names_on_both_sides() {
    use ProcessRole::{Api, Fanout, Gateway, Ingest};
    let fleet = Authority::new();
    let [api, gateway] = [Api, Gateway].map(|role| fleet.for_roles(&[role]));
    assert_eq!(heard(api.clone(), gateway.clone()).await, "the session of this token has ended");
    let both = fleet.for_roles(&[Gateway, Api]);
    assert_eq!(heard(both.clone(), both.clone()).await, "the session of this token has ended");
    for caller in [Fanout, Ingest, Api] {
        let text = heard(api.clone(), fleet.for_roles(&[caller])).await;
        assert!(text.contains("process `a` refuses calls of our role"), "{caller}: {text}");
    }
    // A gateway that registers itself as an api process gets no tokens, and neither does a process without a role.
    let unnamed = fleet.issue(vec!["localhost".to_owned()], &fleet, CertificateNames::Roles);
    for process in [gateway.clone(), unnamed.clone()] {
        let text = heard(process, gateway.clone()).await;
        assert!(text.contains("reject each other's certificates; give all"), "{text}");
    }
    let text = heard(api.clone(), fleet.issue(vec![], &fleet, CertificateNames::Roles)).await;
    assert!(text.contains("process `a` refuses calls of our role"), "{text}");
    assert_eq!(both.check_roles(&[Gateway, Api]), Ok(()));
    assert_eq!(gateway.check_roles(&[Gateway, Api]), Err(RoleError::Certificate { role: Api }));
    assert_eq!(unnamed.check_roles(&[Gateway]), Err(RoleError::Certificate { role: Gateway }));
}
