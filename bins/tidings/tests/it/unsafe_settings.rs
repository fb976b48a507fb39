//! Settings that expose the service: the reports of `doctor` and the refusals of `serve`, without `--dev`.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use expect_test::expect;
use serde_json::json;
use tempfile::TempDir;

use crate::issuer::Issuer;
use crate::server::{TestServer, this_release};

/// A directory with a configuration file, a short secret that every user can read, and a command in it.
struct Exposed(TempDir);

impl Exposed {
    fn new(settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("tidings.toml"), settings).unwrap();
        let secret = directory.path().join("secret");
        fs::write(&secret, "x\n").unwrap();
        fs::set_permissions(secret, Permissions::from_mode(0o644)).unwrap();
        Self(directory)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(this_release());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
            command.env_remove(name);
        }
        command.args(arguments).args(["--config", "tidings.toml"]).current_dir(self.0.path());
        command
    }

    /// The error of a `serve` that is refused.
    fn refused(&self) -> String {
        let output = self.command(&["serve"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(!self.0.path().join("tidings-data").exists(), "nothing is created");
        String::from_utf8(output.stderr).unwrap().replace("; ", ";\n")
    }

    /// Asserts that the service listens when it is started with these arguments. Returns its log up to then.
    fn starts(&self, arguments: &[&str]) -> String {
        let mut server = self
            .command(&[&["serve"], arguments].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        server.kill().unwrap();
        let output = server.wait_with_output().unwrap();
        assert!(line.starts_with("listening on http://"), "{line}{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

const EVERYTHING: &str = r#"
listen = "0.0.0.0:0"
allowed_origins = "*"
[admin]
listen = "0.0.0.0:0"
[auth.external]
jwks_url = "http://issuer.example/keys"
issuer = "https://issuer.example"
audience = "tidings"
[webhook]
url = "http://app.example/hook"
secret_file = "secret"
[notify.webpush]
private_endpoints = true
[limits]
otp_verify = 0
sync = 0
"#;

#[test]
fn doctor_reports_every_unsafe_setting_with_its_remedy() {
    let output = Exposed::new(EVERYTHING).command(&["doctor"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = String::from_utf8(output.stdout).unwrap();
    // The checks before this one are of the machine, and whether the issuer can be reached depends on its network.
    let settings = report.lines().skip_while(|line| !line.contains("calls are signed")).skip(1);
    let settings = settings.filter(|line| !line.contains(" auth.external "));
    expect![[r#"
        BAD   listen         0.0.0.0:0 is not a loopback address and has no TLS, so tokens and messages cross the network in the clear; set `tls.cert_file` and `tls.key_file`, or `trusted_proxies` (TIDINGS_TRUSTED_PROXIES) to the proxy that terminates TLS
        warn  admin.listen   0.0.0.0:0 is not a loopback address and has no TLS, so the admin token crosses the network in the clear; set `admin.cert_file` and `admin.key_file`, or admit only the network of operators
        warn  allowed_origins `*` lets the pages of every origin call the API with a token; name the origins of your pages
        BAD   auth.external.jwks_url `http://issuer.example/keys` is not encrypted, so anyone on the network path can replace the keys and sign in as any user; use https
        warn  webhook.url    `http://app.example/hook` is not encrypted; use https
        BAD   webhook.secret_file the secret in `secret` has 1 bytes and can be guessed; make one of 16 or more: openssl rand -hex 32
        warn  webhook.secret_file every user can read `secret` (mode 0644); run `chmod 600 secret`
        BAD   limits.otp_verify 0 lets anyone try all codes of a phone; leave it at 5
        warn  limits         no limit for otp_verify, sync; leave them at their defaults
        warn  auth.otp.sender one-time codes are written to the log, and anyone who can read it can sign in as any user; set `auth.otp.sender` to "webhook"
        warn  notify.webpush.private_endpoints any user can cause calls to addresses of your network; leave it false
    "#]].assert_eq(&settings.map(|line| format!("{line}\n")).collect::<String>());
}

#[test]
fn serve_refuses_the_worst_settings_without_insecure() {
    let public = "listen = \"0.0.0.0:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let local = "listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let listener = Exposed::new(public);
    expect![[r#"
        error: `listen` is unsafe: 0.0.0.0:0 is not a loopback address and has no TLS, so tokens and messages cross the network in the clear;
        set `tls.cert_file` and `tls.key_file`, or `trusted_proxies` (TIDINGS_TRUSTED_PROXIES) to the proxy that terminates TLS;
        --insecure or TIDINGS_INSECURE=true starts the service anyway
    "#]].assert_eq(&listener.refused());
    listener.starts(&["--insecure"]);
    Exposed::new(&format!("trusted_proxies = \"10.0.0.0/8\"\n{public}")).starts(&[]);

    let issuer = "[auth.external]\njwks_url = \"http://issuer.example/keys\"\nissuer = \"i\"\naudience = \"a\"\n";
    expect![[r#"
        error: `auth.external.jwks_url` is unsafe: `http://issuer.example/keys` is not encrypted, so anyone on the network path can replace the keys and sign in as any user;
        use https;
        --insecure or TIDINGS_INSECURE=true starts the service anyway
    "#]].assert_eq(&Exposed::new(&format!("{local}{issuer}")).refused());

    let webhook = "[webhook]\nurl = \"https://app.example/hook\"\nsecret_file = \"secret\"\n";
    expect![[r#"
        error: `webhook.secret_file` is unsafe: the secret in `secret` has 1 bytes and can be guessed;
        make one of 16 or more: openssl rand -hex 32;
        --insecure or TIDINGS_INSECURE=true starts the service anyway
    "#]]
    .assert_eq(&Exposed::new(&format!("{local}{webhook}")).refused());

    let guesses = format!("trusted_proxies = \"10.0.0.0/8\"\n{public}[limits]\notp_verify = 0\n");
    expect![[r#"
        error: `limits.otp_verify` is unsafe: 0 lets anyone try all codes of a phone;
        leave it at 5;
        --insecure or TIDINGS_INSECURE=true starts the service anyway
    "#]]
    .assert_eq(&Exposed::new(&guesses).refused());
}

/// The warnings about unsafe settings in the log of a start.
fn warnings(log: &str) -> String {
    let warnings =
        log.lines().filter(|line| line.contains(" WARN ")).filter_map(|line| line.split_once("unsafe setting: "));
    warnings.map(|(_, warning)| format!("{warning}\n")).collect()
}

#[test]
fn serve_warns_of_unsafe_settings_at_its_start() {
    let local = "listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    expect![[r#"
        one-time codes are written to the log, and anyone who can read it can sign in as any user; set `auth.otp.sender` to "webhook" setting="auth.otp.sender"
    "#]].assert_eq(&warnings(&Exposed::new(local).starts(&[])));
    let open = format!("allowed_origins = \"*\"\n{local}[limits]\notp_request_total = 0\n");
    expect![[r#"
        `*` lets the pages of every origin call the API with a token; name the origins of your pages setting="allowed_origins"
        no limit for otp_request_total; leave them at their defaults setting="limits"
        one-time codes are written to the log, and anyone who can read it can sign in as any user; set `auth.otp.sender` to "webhook" setting="auth.otp.sender"
    "#]].assert_eq(&warnings(&Exposed::new(&open).starts(&[])));
    let public = "listen = \"0.0.0.0:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[limits]\notp_verify = 0\n";
    expect![[r#"
        0.0.0.0:0 is not a loopback address and has no TLS, so tokens and messages cross the network in the clear; set `tls.cert_file` and `tls.key_file`, or `trusted_proxies` (TIDINGS_TRUSTED_PROXIES) to the proxy that terminates TLS setting="listen"
        0 lets anyone try all codes of a phone; leave it at 5 setting="limits.otp_verify"
        no limit for otp_verify; leave them at their defaults setting="limits"
        one-time codes are written to the log, and anyone who can read it can sign in as any user; set `auth.otp.sender` to "webhook" setting="auth.otp.sender"
    "#]].assert_eq(&warnings(&Exposed::new(public).starts(&["--insecure"])));

    let webhook = "[auth.otp]\nsender = \"webhook\"\nwebhook_url = \"https://sms.example/send\"\n";
    let safe = Exposed::new(&format!("{local}{webhook}webhook_secret_file = \"long\"\n"));
    let secret = safe.0.path().join("long");
    fs::write(&secret, "x".repeat(32)).unwrap();
    fs::set_permissions(secret, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(warnings(&safe.starts(&[])), "", "codes are not in the log");
}

// The issuer answers while the test waits for the command.
#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_whose_keys_can_never_be_used_is_refused_at_start_and_by_doctor() {
    let empty = Issuer::publishing(|_| json!({ "keys": [] })).await;
    let without_discovery = format!("{}/tenant", empty.url);
    let settings = |issuer: &str, more: &str| {
        Exposed::new(&format!(
            "listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n[auth.external]\nissuer = \"{issuer}\"\n\
             audience = \"tidings\"\n{more}"
        ))
    };
    for (case, cause, remedy) in [
        (
            settings("https://id.example", "jwks_file = \"keys.json\"\n"),
            "cannot read `keys.json`: No such file or directory (os error 2)",
            "set `auth.external.jwks_file` to a file with the JSON Web Key Set of the issuer",
        ),
        (
            settings(&without_discovery, ""),
            "cannot be read: the answer was 404 Not Found",
            "set `auth.external.issuer` to the issuer exactly as its tokens name it",
        ),
        (
            settings(&empty.url, ""),
            "no key of the set has a `kid` and is for RS256, ES256 or EdDSA signatures",
            "set `auth.external.issuer` to the issuer exactly as its tokens name it",
        ),
    ] {
        let refused = case.refused();
        assert!(refused.contains(cause) && refused.contains(remedy), "{refused}");
        let output = case.command(&["doctor"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains(" auth.external ")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.starts_with("BAD ") && line.contains(cause) && line.contains(remedy), "{line}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_prevents_no_start() {
    let unreachable =
        [("TIDINGS_AUTH__EXTERNAL__ISSUER", "http://127.0.0.1:1"), ("TIDINGS_AUTH__EXTERNAL__AUDIENCE", "tidings")];
    let server = TestServer::start_with(&unreachable).await;
    let log = server.log();
    let warning = "tokens of the external issuer are refused until its keys can be fetched";
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains(warning)), "{log}");
    let [ann] = server.sign_up_all(["Ann"]).await;
    ann.send(&ann.group("group", &[]).await, "sent").await;
}
