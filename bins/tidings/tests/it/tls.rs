use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use crate::server::{PATIENCE, TestDevice, unlimited};

/// A certificate for this machine.
struct TestCertificate {
    pem: String,
    key_pem: String,
}

impl TestCertificate {
    /// A certificate that is valid until the first day of a year.
    fn new(year: i16) -> Self {
        Self::until(jiff::civil::date(year, 1, 1))
    }

    fn until(day: jiff::civil::Date) -> Self {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = rcgen::date_time_ymd(day.year().into(), day.month() as u8, day.day() as u8);
        Self { pem: params.self_signed(&key).unwrap().pem(), key_pem: key.serialize_pem() }
    }

    /// Installs the certificate, as renewal tools do.
    fn put(&self, directory: &Path) {
        for (name, pem) in [("cert.pem", &self.pem), ("key.pem", &self.key_pem)] {
            let beside = directory.join("new.pem");
            fs::write(&beside, pem).unwrap();
            fs::rename(beside, directory.join(name)).unwrap();
        }
    }

    /// A client that trusts only this certificate, with a new connection.
    fn client(&self) -> reqwest::Client {
        let trusted = reqwest::Certificate::from_pem(self.pem.as_bytes()).unwrap();
        reqwest::Client::builder().tls_certs_only([trusted]).timeout(PATIENCE).build().unwrap()
    }
}

/// A `tidings serve --dev` with TLS on both listeners, and the certificate of its directory.
struct SecureServer {
    directory: TempDir,
    child: Child,
    url: String,
    admin_url: String,
}

impl SecureServer {
    fn start(certificate: &TestCertificate) -> Self {
        let directory = tempfile::tempdir().unwrap();
        certificate.put(directory.path());
        let mut command = command(&directory);
        command.args(["serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        let log = File::create(directory.path().join("log")).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").expect("it starts").to_owned();
        let mut server = Self { directory, child, url, admin_url: String::new() };
        let log = server.log();
        let (_, rest) = log.rsplit_once("admin_address=").unwrap();
        server.admin_url = format!("https://{}", rest.split_whitespace().next().unwrap());
        server
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    fn hang_up(&self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGHUP).unwrap();
    }

    /// Waits until both listeners have logged it.
    async fn until_logged(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.log().matches(words).count() < 2 {
            assert!(Instant::now() < deadline, "`{words}` is not logged twice: {}", self.log());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

impl Drop for SecureServer {
    fn drop(&mut self) {
        // Errors mean that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command for the server of a directory.
fn command(directory: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    let file = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    command.envs(unlimited(&[
        ("TIDINGS_TLS__CERT_FILE", &file("cert.pem")),
        ("TIDINGS_TLS__KEY_FILE", &file("key.pem")),
        ("TIDINGS_ADMIN__CERT_FILE", &file("cert.pem")),
        ("TIDINGS_ADMIN__KEY_FILE", &file("key.pem")),
        ("TIDINGS_DATA_DIR", &file("data")),
    ]));
    command
}

#[tokio::test]
async fn both_listeners_speak_tls_and_a_new_certificate_is_shown_without_a_restart() {
    let (first, second) = (TestCertificate::new(2040), TestCertificate::new(2041));
    let server = SecureServer::start(&first);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let http = first.client();
    let ann = TestDevice::sign_in(http.clone(), &server.url, "+14155550100", "Ann").await;
    let me = ann.get("/users/me").await;
    assert_eq!(me.header("strict-transport-security"), "max-age=63072000");
    assert!(second.client().get(&server.url).send().await.is_err(), "it shows the first");
    let metrics = async |client: &reqwest::Client| {
        client.get(format!("{}/metrics", server.admin_url)).send().await.unwrap().text().await.unwrap()
    };
    let expiry =
        |listener: &str, at: u64| format!("tidings_tls_certificate_expires_seconds{{listener=\"{listener}\"}} {at}");
    let shown = metrics(&http).await;
    assert!(shown.contains(&expiry("public", 2_208_988_800)) && shown.contains(&expiry("admin", 2_208_988_800)));

    second.put(server.directory.path());
    server.hang_up();
    server.until_logged("new certificate loaded").await;
    let renewed = second.client();
    assert_eq!(renewed.get(format!("{}/healthz", server.url)).send().await.unwrap().status(), 200);
    assert!(first.client().get(&server.url).send().await.is_err(), "new connections are shown the second");
    assert_eq!(ann.get("/users/me").await.status, 200, "those there were live on");
    assert!(metrics(&renewed).await.contains(&expiry("public", 2_240_611_200)));

    fs::write(server.directory.path().join("key.pem"), "damaged").unwrap();
    server.hang_up();
    server.until_logged("could not use the new certificate; keeping the current one").await;
    assert_eq!(second.client().get(format!("{}/healthz", server.url)).send().await.unwrap().status(), 200);
    assert!(!server.log().contains("PRIVATE KEY"));
}

#[tokio::test]
async fn clients_and_commands_accept_a_certificate_that_is_configured_as_trusted() {
    let certificate = TestCertificate::new(2040);
    let server = SecureServer::start(&certificate);
    let load = |trusted: bool| {
        let mut load = command(&server.directory);
        load.args(["load", "--workload", "pairs", "-n", "2", "--seconds", "1", "--warmup", "0", "--url", &server.url]);
        if trusted {
            load.env("SSL_CERT_FILE", server.directory.path().join("cert.pem"));
        }
        load.output().unwrap()
    };
    let loaded = load(true);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    assert!(!load(false).status.success(), "the certificate is not trusted");

    let mut routes = command(&server.directory);
    routes.args(["admin", "routes", "gateways", "--admin-listen", server.admin_url.strip_prefix("https://").unwrap()]);
    let listed = routes.output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("local"), "{listed:?}");
}

#[test]
fn doctor_says_how_long_certificates_are_good_and_warns_two_weeks_before() {
    let today = jiff::Zoned::now().date();
    let in_days = |days: i64| today.checked_add(jiff::Span::new().days(days)).unwrap();
    for (day, verdict, words) in [
        (in_days(30), "good", "the certificate is good until "),
        (in_days(13), "warning", "the certificate expires at "),
        (in_days(-1), "bad", "the certificate has expired at "),
    ] {
        let directory = tempfile::tempdir().unwrap();
        TestCertificate::until(day).put(directory.path());
        let output = command(&directory).args(["doctor", "--json", "--listen", "127.0.0.1:0"]).output().unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for table in ["tls", "admin"] {
            let finding = said.as_array().unwrap().iter().find(|finding| finding["check"] == table).unwrap();
            assert_eq!(finding["verdict"], verdict, "{finding}");
            assert!(finding["message"].as_str().unwrap().starts_with(&format!("{words}{day}")), "{finding}");
        }
    }
}

#[tokio::test]
async fn plain_text_on_a_tls_port_gets_no_response() {
    let server = SecureServer::start(&TestCertificate::new(2040));
    let mut socket = TcpStream::connect(server.url.strip_prefix("https://").unwrap()).unwrap();
    socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = Vec::new();
    // The alert may be followed by a reset.
    drop(socket.read_to_end(&mut said));
    assert!(!String::from_utf8_lossy(&said).contains("HTTP"), "{said:?}");
}
