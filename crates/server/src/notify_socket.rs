//! Notifies the service manager (`sd_notify(3)`) that the process is ready, reloads, stops, and is alive.
//!
//! Without a manager's socket nothing is sent. A manager that cannot be reached does not keep the process from serving.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

use crate::health::Liveness;

/// The socket of the service manager.
pub(crate) struct NotifySocket {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl NotifySocket {
    /// The socket that the environment names.
    pub(crate) fn from_environment() -> Self {
        let named = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        Self {
            socket: named.and_then(|name| match connect(&name) {
                Ok(socket) => Some(socket),
                Err(error) => {
                    warn!(%error, "cannot connect to the service manager's socket of `NOTIFY_SOCKET`; continuing without notifications");
                    None
                }
            }),
            watchdog: sd_notify::watchdog_enabled().filter(|watchdog| !watchdog.is_zero()),
        }
    }

    /// Notifies that the service is running.
    pub(crate) fn ready(&self, status: &str) {
        self.notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Notifies that settings are being reloaded. [`reloaded`](Self::reloaded) follows.
    pub(crate) fn reloading(&self) {
        // The manager compares this with its own clock, so that an older message does not count as the reply.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.notify(&[NotifyState::Reloading, now]),
            Err(error) => warn!(%error, "could not notify the service manager of a reload"),
        }
    }

    /// Notifies that the reload is complete.
    pub(crate) fn reloaded(&self) {
        self.notify(&[NotifyState::Ready]);
    }

    /// Notifies that the process is shutting down, with a status text.
    pub(crate) fn stopping(&self, status: &str) {
        self.notify(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// Sends watchdog notifications while the process is alive, until it is stopped. Without them the service manager
    /// restarts the process.
    pub(crate) async fn keep_watched(&self, liveness: Liveness) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        let mut interval = tokio::time::interval(watchdog / 3);
        loop {
            interval.tick().await;
            match liveness.stuck() {
                None => self.notify(&[NotifyState::Watchdog]),
                Some(stuck) => self.notify(&[NotifyState::Status(&stuck.to_string())]),
            }
        }
    }

    fn notify(&self, states: &[NotifyState<'_>]) {
        let message: Vec<String> = states.iter().map(NotifyState::to_string).collect();
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.join("\n").as_bytes())
        {
            warn!(%error, "could not notify the service manager");
        }
    }
}

/// Connects a non-blocking socket, by a path or an abstract name: a manager that does not read must not block the service.
/// `sd_notify::notify` blocks, and knows no abstract names.
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
    async fn watchdog_notifications_stop_when_the_process_is_stuck() {
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
        // The second was at 10 s. At 20 s the component has not answered for longer than allowed.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(heard().as_deref(), Some("STATUS=the committer has not answered for 20 s; restart the process"));
        watching.abort();
    }
}
