//! What people do at a server, be it one process or many.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

use super::{Answer, Device, PATIENCE, TestServer};

impl TestServer {
    /// Waits until something is so that no frame tells of.
    pub(crate) async fn until(&self, so: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !so().await {
            assert!(Instant::now() < deadline, "it does not come to be");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Makes a call without a token. The path begins at the root.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = self.http.request(method, format!("{}{path}", self.base_url()));
        Answer::of(if let Some(body) = body { request.json(body) } else { request }).await
    }

    /// A new user, signed in on one device.
    pub(crate) async fn sign_up(&self, display_name: &str) -> Device {
        let n = self.signed_up.fetch_add(1, Ordering::Relaxed);
        self.sign_in(&format!("+1415{:07}", 2_000_000 + n), display_name).await
    }

    /// So many new users.
    pub(crate) async fn sign_up_all<const N: usize>(&self, display_names: [&str; N]) -> [Device; N] {
        let mut devices = Vec::with_capacity(N);
        for display_name in display_names {
            devices.push(self.sign_up(display_name).await);
        }
        devices.try_into().unwrap_or_else(|_| unreachable!("there is one for each name"))
    }

    /// A new device of the user with that phone number.
    pub(crate) async fn sign_in(&self, phone_number: &str, display_name: &str) -> Device {
        Device::sign_in(self.http.clone(), &self.base_url(), phone_number, display_name).await
    }

    /// Another device of the same user.
    pub(crate) async fn another_device(&self, device: &Device) -> Device {
        self.sign_in(&device.phone_number, "").await
    }
}
