use std::sync::LazyLock;

use domain::Timestamp;
use redis::cluster_routing::Slot;
use redis::{Arg, Cmd, ToRedisArgs};

/// A script that Redis runs in one step. All keys of a call are in one slot.
pub(crate) struct Script {
    text: &'static str,
    hash: String,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!($file)));
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

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// A call with these keys, all of one slot; arguments are added to it.
    pub(crate) fn call<const N: usize>(&self, keys: [&str; N]) -> Call {
        const { assert!(N > 0) };
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(N).arg(&keys);
        Call { command, script: Some(self.text), slot: Slot::for_key(keys[0]) }
    }
}

/// One command on keys of one slot.
pub(crate) struct Call {
    command: Cmd,
    script: Option<&'static str>,
    slot: Slot,
}

impl Call {
    /// A command on a key, or on a channel, which has a slot like a key.
    pub(crate) fn new(name: &str, key: &str) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        Self { command, script: None, slot: Slot::for_key(key) }
    }

    /// Asks for the members of a sorted set that have not expired.
    pub(crate) fn live(key: &str, now: Timestamp) -> Self {
        Self::new("ZRANGEBYSCORE", key).arg(format!("({}", now.as_millis())).arg("+inf")
    }

    /// A question to the node that has a slot.
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

    /// The same with the script's text in the place of its hash, for a Redis that does not know it yet.
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
