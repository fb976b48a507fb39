use std::sync::LazyLock;

use domain::Timestamp;
use redis::cluster_routing::Slot;
use redis::{Arg, Cmd, ToRedisArgs};

/// A Lua script, which Redis runs atomically. All keys of a call are in one slot.
pub(crate) struct LuaScript {
    text: &'static str,
    hash: String,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(crate) static $name: LazyLock<LuaScript> = LazyLock::new(|| LuaScript::new(include_str!($file)));
    };
}

script!(TOUCH_CONNECTION, "scripts/touch_connection.lua");
script!(TOUCH_MEMBERS, "scripts/touch_members.lua");
script!(FORGET_CONNECTION, "scripts/forget_connection.lua");
script!(FORGET_MEMBERS, "scripts/forget_members.lua");
script!(REGISTER_ROUTE, "scripts/register_route.lua");
script!(REFRESH_ROUTE, "scripts/refresh_route.lua");
script!(FORGET_ROUTE, "scripts/forget_route.lua");
script!(BEAT, "scripts/beat.lua");
script!(FORGET_SERVER, "scripts/forget_server.lua");
script!(DUE, "scripts/due.lua");
script!(CLAIM, "scripts/claim.lua");
script!(SETTLE, "scripts/settle.lua");
script!(ANNOUNCED, "scripts/announced.lua");
script!(FILL_MEMBERS, "scripts/fill_members.lua");
script!(TAKE, "scripts/take.lua");

impl LuaScript {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// A call with these keys, all of one slot; the caller adds arguments.
    pub(crate) fn call<const N: usize>(&self, keys: [&str; N]) -> SlotCommand {
        const { assert!(N > 0) };
        self.call_on(keys[0], &keys)
    }

    /// A call with any number of keys, all in the slot of one of them; the caller adds arguments.
    pub(crate) fn call_on(&self, in_slot: &str, keys: &[impl AsRef<str> + ToRedisArgs]) -> SlotCommand {
        let slot = Slot::for_key(in_slot);
        debug_assert!(keys.iter().all(|key| Slot::for_key(key.as_ref()) == slot), "keys of two slots");
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(keys.len()).arg(keys);
        SlotCommand { command, script: Some(self.text), slot }
    }
}

/// One command on keys of one slot.
pub(crate) struct SlotCommand {
    command: Cmd,
    script: Option<&'static str>,
    slot: Slot,
}

impl SlotCommand {
    /// A command on a key, or on a channel, which has a slot like a key.
    pub(crate) fn new(name: &str, key: &str) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        Self { command, script: None, slot: Slot::for_key(key) }
    }

    /// Reads the members of a sorted set that have not expired.
    pub(crate) fn live(key: &str, now: Timestamp) -> Self {
        Self::new("ZRANGEBYSCORE", key).arg(format!("({}", now.as_millis())).arg("+inf")
    }

    /// A command for the node that serves a slot.
    pub(crate) fn to_node(name: &str, slot: Slot) -> Self {
        Self { command: redis::cmd(name), script: None, slot }
    }

    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    pub(crate) fn command(&self) -> Cmd {
        self.command.clone()
    }

    /// The same command with the script's text instead of its hash, for a Redis without the cached script.
    pub(crate) fn command_with_text(&self) -> Cmd {
        let Some(text) = self.script else { return self.command.clone() };
        let mut command = redis::cmd("EVAL");
        command.arg(text);
        for arg in self.command.args_iter().skip(2) {
            if let Arg::Simple(arg) = arg {
                command.arg(arg);
            }
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_called_by_hash_and_by_text_with_the_same_arguments() {
        let call = TAKE.call(["bucket"]).arg(1).arg("two");
        let words = |command: Cmd| -> Vec<String> {
            let word = |arg: Arg<&[u8]>| match arg {
                Arg::Simple(word) => String::from_utf8(word.to_vec()).unwrap(),
                _ => "?".to_owned(),
            };
            command.args_iter().map(word).collect()
        };
        let (hashed, spelled) = (words(call.command()), words(call.command_with_text()));
        assert_eq!(hashed[..2], ["EVALSHA".to_owned(), TAKE.hash.clone()]);
        assert_eq!(spelled[..2], ["EVAL", TAKE.text]);
        assert_eq!(hashed[2..], ["1", "bucket", "1", "two"]);
        assert_eq!(hashed[2..], spelled[2..]);
    }
}
