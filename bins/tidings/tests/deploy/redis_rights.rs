use std::path::Path;

/// The access rights of the user of Redis, from docs/fleet.md.
pub(crate) fn documented_redis_rights() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
    let page = std::fs::read_to_string(path).unwrap();
    // The other access string is that of the default user, which is off.
    let (_, rest) = page.split_once("--access-string \"on ").unwrap();
    let (rights, _) = rest.split_once('"').unwrap();
    // The string is in several lines of a shell command.
    rights.replace("\\\n", "")
}
