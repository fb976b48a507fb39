use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use memory::{MemoryStore, SequentialIds};
use serde_json::Value;
use tempfile::TempDir;
use tidings_auth::{Config, KeyFileError, KeyRing};

use crate::world::{DAY, HOUR, MINUTE, PHONE, World, device, start};

fn open(directory: &Path) -> Result<KeyRing, KeyFileError> {
    KeyRing::open(directory, &Config::default(), start())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn kids(jwks: &Value) -> Vec<&str> {
    jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap()).collect()
}

#[test]
fn the_first_start_makes_a_key_file_for_the_owner_only() {
    let directory = TempDir::new().unwrap();
    open(directory.path()).unwrap();
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["keys.json"]);
    assert_eq!(mode(&directory.path().join("keys.json")), 0o600);
}

#[test]
fn a_restart_changes_nothing() {
    let directory = TempDir::new().unwrap();
    open(directory.path()).unwrap();
    let before = fs::read(directory.path().join("keys.json")).unwrap();
    open(directory.path()).unwrap();
    assert_eq!(fs::read(directory.path().join("keys.json")).unwrap(), before);
}

#[test]
fn a_key_file_open_to_others_is_closed() {
    let directory = TempDir::new().unwrap();
    open(directory.path()).unwrap();
    let path = directory.path().join("keys.json");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    open(directory.path()).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_damaged_key_file_is_refused_with_a_remedy_and_left_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("keys.json");
    for bytes in [
        "",
        "{",
        "[]",
        r#"{"version": 1}"#,
        r#"{"version": 1, "code_secret": "", "token_keys": []}"#,
        r#"{"version": 1, "code_secret": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "token_keys": []}"#,
        r#"{"version": 1, "code_secret": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "token_keys": [{"created_at": "2026-01-30T14:30:00.000Z", "pkcs8": "AAAA"}]}"#,
    ] {
        fs::write(&path, bytes).unwrap();
        let error = open(directory.path()).err().expect(bytes);
        assert!(matches!(error, KeyFileError::Damaged { .. }), "{bytes}: {error:?}");
        assert!(error.to_string().contains("restore it from a backup, or move it away"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), bytes);
    }
}

#[test]
fn a_key_file_of_a_newer_program_is_refused() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("keys.json"), r#"{"version": 2}"#).unwrap();
    let error = open(directory.path()).err().unwrap();
    assert!(matches!(error, KeyFileError::Version { found: 2, .. }), "{error:?}");
}

#[test]
fn a_missing_directory_is_named() {
    let error = open(Path::new("/nonexistent/tidings")).err().unwrap();
    assert_eq!(error.to_string(), "cannot write key file `/nonexistent/tidings/keys.json`");
}

#[test]
fn a_half_written_file_after_a_crash_is_ignored() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("keys.json.new"), "{").unwrap();
    open(directory.path()).unwrap();
    assert!(!directory.path().join("keys.json.new").exists());
}

#[tokio::test]
async fn tokens_survive_a_rotation_and_old_keys_do_not_survive_their_tokens() {
    let world = World::new();
    assert!(!world.keys.rotate_if_due(start() + (30 * DAY - MINUTE)).unwrap());
    world.clock.set(start() + (30 * DAY - MINUTE));
    let old = world.sign_in(PHONE, device(1)).await;
    let jwks = world.auth.jwks();
    let [old_kid] = kids(&jwks)[..] else { panic!("{jwks}") };

    let rotated_at = start() + 30 * DAY;
    world.clock.set(rotated_at);
    assert!(world.keys.rotate_if_due(rotated_at).unwrap());
    let new = world.sign_in(PHONE, device(2)).await;
    let jwks = world.auth.jwks();
    let [first, new_kid] = kids(&jwks)[..] else { panic!("{jwks}") };
    assert_eq!(first, old_kid);
    for signed_in in [&old, &new] {
        let principal = world.auth.authenticate(signed_in.tokens.access_token.expose()).await.unwrap();
        assert_eq!(principal.user_id, old.user.user_id);
    }
    let header = jsonwebtoken::decode_header(new.tokens.access_token.expose()).unwrap();
    assert_eq!(header.kid.as_deref(), Some(new_kid));

    let last_needed_at = rotated_at + HOUR + 5 * MINUTE;
    assert!(!world.keys.rotate_if_due(last_needed_at).unwrap());
    assert!(world.keys.rotate_if_due(last_needed_at + MINUTE).unwrap());
    assert_eq!(kids(&world.auth.jwks()), [new_kid]);
}

#[test]
fn a_signing_key_that_aged_while_the_server_was_down_is_rotated_at_the_start() {
    let directory = TempDir::new().unwrap();
    open(directory.path()).unwrap();
    let keys = || {
        let bytes = fs::read(directory.path().join("keys.json")).unwrap();
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        file["token_keys"].as_array().unwrap().len()
    };
    assert_eq!(keys(), 1);
    KeyRing::open(directory.path(), &Config::default(), start() + 31 * DAY).unwrap();
    assert_eq!(keys(), 2);
    assert_eq!(mode(&directory.path().join("keys.json")), 0o600);
}

#[tokio::test]
async fn the_jwks_shows_public_halves_only() {
    let jwks = World::new().auth.jwks();
    let key = jwks["keys"][0].as_object().unwrap();
    assert_eq!(key.keys().map(String::as_str).collect::<Vec<_>>(), ["alg", "crv", "kid", "kty", "use", "x"]);
    assert_eq!(
        (&key["alg"], &key["crv"], &key["kty"], &key["use"]),
        (&"EdDSA".into(), &"Ed25519".into(), &"OKP".into(), &"sig".into())
    );
}

#[tokio::test]
async fn processes_of_a_fleet_take_each_others_tokens_through_every_rotation() {
    let store = Arc::new(MemoryStore::new(Arc::new(SequentialIds::default())));
    let [one, other] = [(); 2].map(|()| World::of_fleet(store.clone()));
    let mut signing_keys = std::collections::BTreeSet::new();
    for day in (1..=65).step_by(8) {
        let signed_in = one.sign_in(PHONE, device(1)).await;
        let token = signed_in.tokens.access_token.expose();
        assert_eq!(other.auth.authenticate(token).await.unwrap().user_id, signed_in.user.user_id);
        signing_keys.insert(jsonwebtoken::decode_header(token).unwrap().kid.unwrap());
        // One process has rotated to the new key, the other has not yet.
        one.clock.set(start() + day * DAY);
        one.keys.rotate_if_due(start() + day * DAY).unwrap();
        assert!(other.auth.authenticate(token).await.is_ok());
        let early = one.sign_in(PHONE, device(2)).await;
        assert!(other.auth.authenticate(early.tokens.access_token.expose()).await.is_ok());
        other.clock.set(start() + day * DAY);
        other.keys.rotate_if_due(start() + day * DAY).unwrap();
        assert_eq!(one.auth.jwks(), other.auth.jwks());
    }
    assert_eq!(signing_keys.len(), 3, "65 days have the keys of three stretches of 30 days");
}
