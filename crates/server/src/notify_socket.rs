//! What the service manager is told (`sd_notify(3)`): that the process is ready, reloads, stops, and is alive.
//!
//! Where no manager listens, nothing is said. A manager that cannot be reached is no reason not to serve.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tracing::warn;

use crate::health::Liveness;

/// The socket of the service manager.
pub(crate) struct NotifySocket {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl NotifySocket {
    /// The one that the environment names.
    pub(crate) fn from_environment() -> Self {
        let named = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        // Only for the process that is meant: a child of it inherits the environment.
        let is_ours = |pid: OsString| pid.to_str() == Some(&std::process::id().to_string());
        let watched = std::env::var_os("WATCHDOG_PID").is_none_or(is_ours);
        let microseconds = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        Self {
            socket: named.and_then(|name| match connect(&name) {
                Ok(socket) => Some(socket),
                Err(error) => {
                    warn!(%error, "the service manager cannot be told anything; `NOTIFY_SOCKET` names its socket");
                    None
                }
            }),
            watchdog: microseconds.filter(|_| watched).map(Duration::from_micros),
        }
    }

    /// Says that everything is at work.
    pub(crate) fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}"));
    }

    /// Says that settings are read again. [`reloaded`](Self::reloaded) follows.
    pub(crate) fn reloading(&self) {
        // The manager holds this against its own clock, so that it does not take an older message for the answer.
        match clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from) {
            Ok(now) => self.say(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros())),
            Err(error) => warn!(%error, "the service manager was not told of a reload"),
        }
    }

    /// Says that settings have been read.
    pub(crate) fn reloaded(&self) {
        self.say("READY=1");
    }

    /// Says that the process ends, and why it takes its time.
    pub(crate) fn stopping(&self, status: &str) {
        self.say(&format!("STOPPING=1\nSTATUS={status}"));
    }

    /// Says again and again that the process is alive, for as long as it is, for ever. Somebody who expects it and hears
    /// nothing restarts the process.
    pub(crate) async fn keep_watched(&self, liveness: Liveness) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        let mut interval = tokio::time::interval(watchdog / 3);
        loop {
            interval.tick().await;
            match liveness.stuck() {
                None => self.say("WATCHDOG=1"),
                Some(stuck) => self.say(&format!("STATUS={stuck}")),
            }
        }
    }

    fn say(&self, message: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.as_bytes())
        {
            warn!(%error, "the service manager was not told something");
        }
    }
}

/// A socket that never waits: a manager that does not read must not hold up the service.
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match name.as_bytes() {
        [b'@', hidden @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(hidden)?)?,
        _ => socket.connect(name)?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_is_fed_while_the_process_is_alive_and_falls_silent_when_it_is_stuck() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let heard = || {
            let mut bytes = [0; 256];
            let length = manager.recv(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
        };
        let socket = connect(&path.into_os_string()).unwrap();
        let socket = NotifySocket { socket: Some(socket), watchdog: Some(Duration::from_secs(30)) };
        socket.reloading();
        let reloading = heard().unwrap();
        let (_, at) = reloading.split_once("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(at.parse::<u64>().unwrap() > 0);
        socket.reloaded();
        assert_eq!(heard().as_deref(), Some("READY=1"));

        let liveness = Liveness::new("the committer", Duration::from_secs(15));
        let watching = tokio::spawn(async move { socket.keep_watched(liveness).await });
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(heard().as_deref(), Some("WATCHDOG=1"));
        }
        // The second was at 10 s; at 20 s nothing has answered for longer than it may.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(heard().as_deref(), Some("STATUS=the committer has not answered for 20 s; restart the process"));
        watching.abort();
    }
}
