use std::fs;
use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use keyfile::KeyFileError;
use tempfile::TempDir;
use tidings_notify::VapidKeys;

#[test]
fn keys_are_made_once_for_the_owner_only_and_stay() {
    let directory = TempDir::new().unwrap();
    let made = VapidKeys::open(directory.path()).unwrap();
    let point = BASE64_URL_SAFE_NO_PAD.decode(made.public_key()).unwrap();
    assert_eq!((point.len(), point[0]), (65, 4), "an uncompressed point, as browsers want it");
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["vapid.json"]);
    let mode = fs::metadata(directory.path().join("vapid.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(VapidKeys::open(directory.path()).unwrap().public_key(), made.public_key());
}

#[test]
fn damaged_keys_are_refused_with_a_remedy_and_left_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("vapid.json");
    for bytes in ["", "{", r#"{"version": 1}"#, r#"{"version": 1, "pkcs8": "AAAA"}"#] {
        fs::write(&path, bytes).unwrap();
        let error = VapidKeys::open(directory.path()).err().expect(bytes);
        assert!(matches!(error, KeyFileError::Damaged { .. }), "{bytes}: {error:?}");
        assert!(error.to_string().ends_with("(browsers then have to subscribe to notifications again)"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), bytes);
    }
}

#[test]
fn processes_of_a_fleet_have_the_same_keys_and_another_fleet_has_others() {
    let directory = TempDir::new().unwrap();
    let derived = |secret: &str| {
        let path = directory.path().join("secret");
        fs::write(&path, secret).unwrap();
        VapidKeys::derived(&keyfile::MasterSecret::read(&path).unwrap()).public_key().to_owned()
    };
    let (one, other) = ("0123456789abcdef".repeat(2), "fedcba9876543210".repeat(2));
    assert_eq!(derived(&one), derived(&one));
    assert_ne!(derived(&one), derived(&other));
}
