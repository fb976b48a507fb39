use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::{ServerChild, root};

/// The user of the image.
const USER: u32 = 65_532;

/// The valid instructions of a container file.
const INSTRUCTIONS: [&str; 12] = [
    "FROM",
    "WORKDIR",
    "COPY",
    "RUN",
    "USER",
    "ENV",
    "VOLUME",
    "EXPOSE",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "CMD",
];

/// The instructions of the file, each in one line.
fn instructions() -> Vec<(String, String)> {
    let file = fs::read_to_string(root().join("deploy/container/Containerfile")).unwrap();
    let lines = file.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n").replace("\\\n", "");
    let instruction = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        (name.to_owned(), rest.trim().to_owned())
    };
    lines.lines().filter(|line| !line.is_empty()).map(instruction).collect()
}

#[test]
fn the_image_holds_only_the_binary_and_its_files_and_runs_unprivileged() {
    let all = instructions();
    for (name, rest) in &all {
        assert!(INSTRUCTIONS.contains(&&**name) && !rest.is_empty(), "{name} {rest}");
    }
    let last_stage = all.iter().rposition(|(name, _)| name == "FROM").unwrap();
    let image = &all[last_stage..];
    assert_eq!(image[0].1, "scratch");
    let one = |name: &str| {
        let mut found = image.iter().filter(|(other, _)| other == name).map(|(_, rest)| &**rest);
        let one = found.next().unwrap_or_else(|| panic!("the image has no {name}"));
        assert!(found.next().is_none() || name == "COPY", "{name} twice");
        one
    };
    assert_eq!(one("USER"), "65532:65532");
    assert_eq!(one("STOPSIGNAL"), "SIGTERM");
    assert_eq!(one("VOLUME"), "/var/lib/tidings");
    // There is no shell in the image, so commands are in exec form.
    for name in ["ENTRYPOINT", "CMD"] {
        let words: Vec<String> = serde_json::from_str(one(name)).unwrap();
        assert!(!words.is_empty());
    }
    let (_, check) = one("HEALTHCHECK").split_once(" CMD ").unwrap();
    assert_eq!(serde_json::from_str::<Vec<String>>(check).unwrap(), ["/usr/bin/tidings", "healthcheck"]);
    assert!(image.iter().all(|(name, _)| name != "RUN"), "nothing can be run in an empty image");
    // The toolchain is that of the workspace.
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert!(all[0].1.contains(&format!("rust:{version}-bookworm")), "{}", all[0].1);
}

/// The variables that the documented `docker run` sets.
fn documented_environment(text: &str) -> Vec<(&str, &str)> {
    let (_, run) = text.split_once("docker run ").unwrap();
    let (run, _) = run.split_once("--volume").unwrap();
    let variables = run.split("--env ").skip(1).map(|rest| rest.split_whitespace().next().unwrap());
    variables.map(|variable| variable.split_once('=').unwrap()).collect()
}

/// The variables of the image.
pub(crate) fn image_environment() -> BTreeMap<String, String> {
    let all = instructions();
    let (_, image) = all.iter().find(|(name, _)| name == "ENV").unwrap();
    let variables = image.split_whitespace().map(|variable| variable.split_once('=').unwrap());
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A `serve` with the variables of the image and these, on free ports.
fn serve_as_in_the_image(data: &Path, environment: &[(&str, &str)]) -> Command {
    let mut server = Command::new(env!("CARGO_BIN_EXE_tidings"));
    server.arg("serve").env_clear().envs(image_environment()).envs(environment.iter().copied());
    // A container has its own network and volume; this test has not. Like a container it listens on all addresses.
    server.args(["--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    server.stdin(Stdio::null());
    server
}

#[test]
fn the_documented_run_of_the_image_starts() {
    let file = fs::read_to_string(root().join("deploy/container/Containerfile")).unwrap();
    let page = fs::read_to_string(root().join("docs/deploy.md")).unwrap();
    let documented = documented_environment(&page);
    assert_eq!(documented_environment(&file), documented);
    let directory = tempfile::tempdir().unwrap();
    for environment in [&documented[..], &[("TIDINGS_INSECURE", "true")]] {
        let mut server = serve_as_in_the_image(&directory.path().join("data"), environment);
        let mut server = ServerChild(server.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on http://0.0.0.0:"), "{environment:?}: {line}");
    }
}

#[test]
fn the_image_without_settings_names_the_required_ones() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = serve_as_in_the_image(&directory.path().join("data"), &[]);
    let mut server = ServerChild(server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "", "it is refused");
    let error = std::io::read_to_string(server.0.stderr.take().unwrap()).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(1), "{error}");
    for setting in ["`tls.cert_file`", "`tls.key_file`", "TIDINGS_TRUSTED_PROXIES", "TIDINGS_INSECURE=true"] {
        assert!(error.contains(setting), "{setting}: {error}");
    }
}

/// Assembles the root of the image from this machine's files, as its last stage copies them.
fn assemble(image: &Path) {
    let copied = instructions().into_iter().filter(|(name, _)| name == "COPY").map(|(_, rest)| rest);
    for copy in copied.filter(|copy| copy.starts_with("--from=build")) {
        let [from, to] = copy.split(' ').filter(|word| !word.starts_with("--")).collect::<Vec<_>>()[..] else {
            panic!("{copy}")
        };
        let there = image.join(to.trim_start_matches('/'));
        fs::create_dir_all(there.parent().unwrap()).unwrap();
        match from {
            "/out/usr/bin/tidings" => {
                let built = env!("CARGO_BIN_EXE_tidings");
                // The binary is large, and a hard link suffices on the same disk.
                fs::hard_link(built, &there).or_else(|_| fs::copy(built, &there).map(drop)).unwrap();
            }
            "/out/passwd" => fs::write(&there, "tidings:x:65532:65532::/var/lib/tidings:/nonexistent\n").unwrap(),
            "/out/var/lib/tidings" => {
                fs::create_dir(&there).unwrap();
                fs::set_permissions(&there, Permissions::from_mode(0o700)).unwrap();
                chown(&there, Some(USER), Some(USER)).unwrap();
            }
            library => drop(fs::copy(library, &there).unwrap()),
        }
    }
}

/// Verifies the list of files in the image: the process can access nothing else of this machine.
#[tokio::test]
async fn the_image_serves_and_stops_on_sigterm() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || !cfg!(target_arch = "x86_64") {
        eprintln!("only root can change its root, and the image is for x86_64; what it holds was only read");
        return;
    }
    let image = tempfile::tempdir().unwrap();
    fs::set_permissions(image.path(), Permissions::from_mode(0o755)).unwrap();
    assemble(image.path());
    let server = Command::new("chroot")
        .arg(format!("--userspec={USER}:{USER}"))
        .arg(image.path())
        .args(["/usr/bin/tidings", "serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(["--data-dir", "/var/lib/tidings"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdout(Stdio::piped())
        .spawn();
    let mut server = ServerChild(server.unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim_end().strip_prefix("listening on ").unwrap().to_owned();

    // Signing in and sending a note to oneself exercises the store, the keys and randomness.
    let http = reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    let post = async |path: &str, token: &str, body: Value| -> Value {
        let request = http.post(format!("{url}/api/v1{path}")).bearer_auth(token).json(&body);
        request.send().await.unwrap().json().await.unwrap()
    };
    let phone = "+4915112345678";
    post("/auth/request-otp", "", json!({ "phone_number": phone })).await;
    let device = uuid::Uuid::new_v4();
    let signed_in = post(
        "/auth/verify-otp",
        "",
        json!({ "phone_number": phone, "otp": "000000", "device_id": device, "display_name": "Ada" }),
    )
    .await;
    let token = signed_in["data"]["tokens"]["access_token"].as_str().unwrap_or_else(|| panic!("{signed_in}"));
    let group = post("/chats", token, json!({ "type": "group", "name": "notes", "member_ids": [] })).await;
    let chat_id = group["data"]["chat_id"].as_str().unwrap_or_else(|| panic!("{group}"));
    let note = json!({ "client_message_id": uuid::Uuid::new_v4(), "content": "hello" });
    let sent = post(&format!("/chats/{chat_id}/messages"), token, note).await;
    assert_eq!(sent["data"]["sequence"], 1, "{sent}");

    let check = Command::new("chroot")
        .arg(format!("--userspec={USER}:{USER}"))
        .arg(image.path())
        .args(["/usr/bin/tidings", "healthcheck", "--url", &url])
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    kill(Pid::from_raw(server.0.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}
