//! Access of other users of the machine to the files of the service.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use nix::sys::stat::{Mode, umask};

use crate::server::{TestServer, this_release};
use crate::webhook::{said, tidings};

/// Every file and directory below `root` and `root` itself, with its mode.
fn modes(root: &Path) -> Vec<(PathBuf, u32)> {
    let metadata = fs::symlink_metadata(root).unwrap();
    let mut found = vec![(root.to_owned(), metadata.permissions().mode() & 0o777)];
    if metadata.is_dir() {
        found.extend(fs::read_dir(root).unwrap().flat_map(|entry| modes(&entry.unwrap().path())));
    }
    found
}

fn assert_private(root: &Path) {
    for (path, mode) in modes(root) {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}

/// Gives every user the access that version 0.2 gave them.
fn open_to_others(root: &Path) {
    for (path, _) in modes(root) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
}

/// Runs a command on a directory, without a running service.
fn run(arguments: &[&str], data_dir: &Path) -> String {
    let output = try_run(arguments, data_dir);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn try_run(arguments: &[&str], data_dir: &Path) -> Output {
    let mut command = std::process::Command::new(this_release());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
        command.env_remove(name);
    }
    command.args(arguments).arg("--data-dir").arg(data_dir).output().unwrap()
}

/// Whether a text occurs in a file, or in any file below a directory.
fn contains(root: &Path, text: &str) -> bool {
    if root.is_dir() {
        return fs::read_dir(root).unwrap().any(|entry| contains(&entry.unwrap().path(), text));
    }
    fs::read(root).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
}

/// The umask of most shells, which the binary must not rely on.
fn usual_umask() {
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
}

#[tokio::test]
async fn no_other_user_can_read_the_data_backups_or_exports() {
    usual_umask();
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    ann.send(&ann.direct_chat(&bob).await, "sealed").await;
    let beside = tempfile::tempdir().unwrap();
    let file = |name: &str| beside.path().join(name).to_str().unwrap().to_owned();
    // A file that exists keeps its mode when it is written again.
    fs::write(file("account"), "").unwrap();
    fs::set_permissions(file("account"), Permissions::from_mode(0o644)).unwrap();
    said(&tidings(&server, &["user", "export", &ann.user_id, "--output", &file("account")]).await);
    assert_private(&server.data_dir());
    assert!(server.stop().await.0.success());

    run(&["backup", &file("backup")], &server.data_dir());
    run(&["export", &file("export")], &server.data_dir());
    run(&["restore", &file("backup")], Path::new(&file("restored")));
    run(&["import", &file("export")], Path::new(&file("imported")));
    assert_private(&server.data_dir());
    for name in ["account", "backup", "export", "restored", "imported"] {
        assert_private(Path::new(&file(name)));
    }
}

#[tokio::test]
async fn a_data_directory_that_others_can_read_is_restricted_at_the_start() {
    usual_umask();
    let mut server = TestServer::start().await;
    assert!(server.stop().await.0.success());
    open_to_others(&server.data_dir());
    server.restart().await;
    assert_private(&server.data_dir());
    assert!(server.last_log().contains("other users had access to the data directory"), "{}", server.last_log());
}

#[tokio::test]
async fn doctor_reports_a_data_directory_that_others_can_read() {
    usual_umask();
    let mut server = TestServer::start().await;
    assert!(server.stop().await.0.success());
    let examine = || run(&["doctor", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], &server.data_dir());
    open_to_others(&server.data_dir());
    let shown = server.data_dir();
    let finding = format!(
        "warn  access         `{}` had mode 0755, so other users could read it; it is now restricted to its owner\n",
        shown.display()
    );
    let report = examine();
    assert!(report.contains(&finding), "{report}");
    let report = examine();
    assert!(report.contains("ok    access         only its owner can use the data directory\n"), "{report}");
}

#[tokio::test]
async fn an_encrypted_store_and_its_backup_show_no_message_and_no_phone_number() {
    const TEXT: &str = "meet me at the north gate";
    let beside = tempfile::tempdir().unwrap();
    let file = |name: &str| beside.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("store.key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let settings = |key_file: &str| {
        fs::write(file("tidings.toml"), format!("[store]\nkey_file = \"{key_file}\"\n")).unwrap();
        file("tidings.toml")
    };
    for key_file in [String::new(), file("store.key")] {
        let is_encrypted = !key_file.is_empty();
        let mut server = TestServer::start_with(&[("TIDINGS_STORE__KEY_FILE", &key_file)]).await;
        let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
        let chat_id = ann.direct_chat(&bob).await;
        ann.send(&chat_id, TEXT).await;
        let phone_number = ann.get("/users/me").await.data(200)["phone_number"].as_str().unwrap().to_owned();
        server.kill().await;
        server.restart().await;
        assert_eq!(bob.get(&format!("/chats/{chat_id}/messages")).await.data(200)["messages"][0]["content"], TEXT);
        assert!(server.stop().await.0.success());

        let data_dir = server.data_dir();
        let backup = file(if is_encrypted { "encrypted.backup" } else { "plain.backup" });
        run(&["store", "backup", &backup, "--config", &settings(&key_file)], &data_dir);
        for text in [TEXT, &phone_number[1..]] {
            assert_ne!(contains(&data_dir, text), is_encrypted, "{text} in the data directory");
        }
        assert!(!is_encrypted || !contains(Path::new(&backup), &phone_number[1..]));
        let report = run(
            &["doctor", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", &settings(&key_file)],
            &data_dir,
        );
        assert_eq!(report.contains("opens, encrypted with key "), is_encrypted, "{report}");
    }

    // Without the key neither the store nor the backup is of use.
    let arguments = ["store", "restore", &file("encrypted.backup"), "--config", &settings("")];
    let refused = try_run(&arguments, Path::new(&file("nowhere")));
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && reason.contains("encrypted with key"), "{reason}");

    // A restore with a key encrypts the store of a plain backup.
    let restored = file("restored");
    run(&["store", "restore", &file("plain.backup"), "--config", &settings(&file("store.key"))], Path::new(&restored));
    assert!(!contains(Path::new(&restored), TEXT));
    let refused = try_run(&["store", "verify", "--config", &settings("")], Path::new(&restored));
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert!(reason.contains("name it with `store.key_file` or `store.key_command`"), "{reason}");
    run(&["store", "verify", "--config", &settings(&file("store.key"))], Path::new(&restored));
}

#[tokio::test]
async fn a_command_prints_the_key_of_a_store_at_each_start() {
    const SETTING: &str = "TIDINGS_STORE__KEY_COMMAND";
    let beside = tempfile::tempdir().unwrap();
    let file = |name: &str, secret: &str| {
        let path = beside.path().join(name);
        fs::write(&path, format!("{secret}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (file("right.key", &"0123456789".repeat(4)), file("wrong.key", &"9876543210".repeat(4)));
    let mut server = TestServer::start_with(&[(SETTING, &format!("cat {right}"))]).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Sailing", &[]).await;
    ann.send(&chat_id, "meet me at the north gate").await;
    server.kill().await;
    server.restart().await;
    let content = async || {
        let history = ann.get(&format!("/chats/{chat_id}/messages")).await.data(200);
        history["messages"][0]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(content().await, "meet me at the north gate");
    assert!(server.stop().await.0.success());
    assert!(!contains(&server.data_dir(), "north gate"));

    for (command, reason) in [
        ("false".to_owned(), "`store.key_command` is not usable"),
        (format!("cat {wrong}"), "the store is encrypted with key "),
        (String::new(), "name it with `store.key_file` or `store.key_command`"),
    ] {
        server.set_env(SETTING, &command);
        server.spawn();
        assert_eq!(server.exited().await.code(), Some(1), "{command}");
        assert!(server.last_log().contains(reason), "{}", server.last_log());
    }
    let config = file("tidings.toml", &format!("[store]\nkey_command = \"cat {right}\""));
    run(&["store", "verify", "--config", &config], &server.data_dir());
    server.set_env(SETTING, &format!("cat {right}"));
    server.restart().await;
    assert_eq!(content().await, "meet me at the north gate");
}
