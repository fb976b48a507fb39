//! The settings of the embedded store, with the key that encrypts it.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use embedded::StoreKey;

use crate::config::{Config, StoreSettings};

const GIB: f64 = (1 << 30) as f64;
/// Longest secret that a command may print.
const SECRET_BYTES_MAX: u64 = 4096;

/// The settings of the store for a service. Blocks on the disk, and on the command that prints the key.
pub(crate) fn embedded_config(config: &Config) -> anyhow::Result<embedded::Config> {
    Ok(embedded::Config {
        cache_bytes: config.store.cache_mib << 20,
        used_bytes_max: (config.store.max_gib > 0.0).then_some((config.store.max_gib * GIB) as u64),
        free_bytes_min: config.store.min_free_mib << 20,
        erase_within: config.erase_within(),
        key: store_key(config)?,
        ..embedded::Config::default()
    })
}

/// The key that encrypts the store; `None` if the settings name none.
pub(crate) fn store_key(config: &Config) -> anyhow::Result<Option<StoreKey>> {
    let StoreSettings { key_file, key_command, .. } = &config.store;
    if !key_file.is_empty() {
        return key_from_file(Path::new(key_file)).context("`store.key_file` is not usable").map(Some);
    }
    if !key_command.is_empty() {
        return key_from_command(key_command).context("`store.key_command` is not usable").map(Some);
    }
    Ok(None)
}

/// The key of which a file contains the secret, without surrounding white space.
pub(crate) fn key_from_file(path: &Path) -> anyhow::Result<StoreKey> {
    let secret = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    StoreKey::derive(secret.trim_ascii()).with_context(|| format!("`{}` is refused", path.display()))
}

/// The key of which a command prints the secret. The command is a program and its arguments, separated by spaces; no
/// shell interprets it. Its standard error goes to that of this process.
fn key_from_command(command: &str) -> anyhow::Result<StoreKey> {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { bail!("it names no program") };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{program}`"))?;
    let mut secret = vec![];
    let printed = child.stdout.take().expect("the output is piped");
    let read = printed.take(SECRET_BYTES_MAX + 1).read_to_end(&mut secret);
    let status = child.wait().with_context(|| format!("cannot wait for `{program}`"))?;
    read.with_context(|| format!("cannot read the output of `{program}`"))?;
    ensure!(secret.len() as u64 <= SECRET_BYTES_MAX, "`{program}` prints more than {SECRET_BYTES_MAX} bytes");
    ensure!(status.success(), "`{program}` failed: {status}");
    StoreKey::derive(secret.trim_ascii()).with_context(|| format!("the output of `{program}` is refused"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(key_file: &str, key_command: &str) -> Config {
        let mut config = Config::default();
        config.store.key_file = key_file.to_owned();
        config.store.key_command = key_command.to_owned();
        config
    }

    fn refusal(config: &Config) -> String {
        format!("{:#}", store_key(config).expect_err("it is refused"))
    }

    #[test]
    fn a_file_and_a_command_with_the_same_secret_give_the_same_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.key");
        fs::write(&path, format!("{}\n", "a".repeat(64))).unwrap();
        let path = path.to_str().unwrap();
        let from_file = store_key(&config(path, "")).unwrap().unwrap();
        let from_command = store_key(&config("", &format!("cat  {path}"))).unwrap().unwrap();
        assert_eq!(from_file.id(), from_command.id());
        assert!(store_key(&Config::default()).unwrap().is_none());
    }

    #[test]
    fn a_key_that_cannot_be_had_is_refused_with_the_setting_and_the_reason() {
        let missing = refusal(&config("/absent/store.key", ""));
        assert!(missing.starts_with("`store.key_file` is not usable: cannot read `/absent/store.key`"), "{missing}");
        for (command, reason) in [
            ("false", "`false` failed: exit status: 1"),
            ("/absent/program x", "cannot run `/absent/program`"),
            ("echo short", "has 5 bytes and could be guessed"),
            ("cat /dev/zero", "prints more than 4096 bytes"),
        ] {
            let refusal = refusal(&config("", command));
            assert!(refusal.starts_with("`store.key_command` is not usable"), "{refusal}");
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
}
