//! User actions on a server, which may be one process or a fleet.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reqwest::Method;
use serde_json::Value;

use super::{PATIENCE, RestResponse, TestDevice, TestServer};

impl TestServer {
    /// Polls for a condition that no frame announces.
    pub(crate) async fn until(&self, so: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !so().await {
            assert!(Instant::now() < deadline, "it does not come to be");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Makes a call without a token. The path begins at the root.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> RestResponse {
        let request = self.http.request(method, format!("{}{path}", self.base_url()));
        RestResponse::of(if let Some(body) = body { request.json(body) } else { request }).await
    }

    /// A phone number that was not returned before.
    pub(crate) fn unused_number(&self) -> String {
        let n = self.signed_up.fetch_add(1, Ordering::Relaxed);
        format!("+1415{:07}", 2_000_000 + n)
    }

    /// A new user, signed in on one device.
    pub(crate) async fn sign_up(&self, display_name: &str) -> TestDevice {
        self.sign_in(&self.unused_number(), display_name).await
    }

    /// Signs up several new users.
    pub(crate) async fn sign_up_all<const N: usize>(&self, display_names: [&str; N]) -> [TestDevice; N] {
        let mut devices = Vec::with_capacity(N);
        for display_name in display_names {
            devices.push(self.sign_up(display_name).await);
        }
        devices.try_into().unwrap_or_else(|_| unreachable!("there is one for each name"))
    }

    /// A new device of the user with that phone number. Its ids sort after those of earlier devices.
    pub(crate) async fn sign_in(&self, phone_number: &str, display_name: &str) -> TestDevice {
        let device = TestDevice::sign_in(self.http.clone(), &self.base_url(), phone_number, display_name).await;
        next_millisecond().await;
        device
    }

    /// Another device of the same user.
    pub(crate) async fn another_device(&self, device: &TestDevice) -> TestDevice {
        self.sign_in(&device.phone_number, "").await
    }
}

/// Waits for the next millisecond of the clock. Ids of one millisecond have no order; ids made afterwards sort after those
/// made before.
pub(crate) async fn next_millisecond() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_millis()).unwrap();
    let before = now();
    while now() <= before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
