use std::fmt;
use std::time::Duration;

use domain::{ChatId, DeviceId, Sequence};
use protocol::client::SendBounds;
use protocol::rest::Tokens;
use uuid::Uuid;

use crate::driver;
use crate::tokens::Keeper;
use crate::{Api, ApiError, BaseUrlError, ClientHandle, Events};

/// The client of one device for one server.
#[derive(Clone, Debug)]
pub struct Client {
    api: Api,
    send_bounds: SendBounds,
    reconnect_pause: Duration,
    positions: Vec<(ChatId, Sequence)>,
}

/// The configuration of a [`Client`].
#[must_use]
pub struct ClientBuilder {
    base_url: String,
    device_id: Option<DeviceId>,
    tokens: Option<Tokens>,
    keeper: Option<Keeper>,
    http: Option<reqwest::Client>,
    send_bounds: SendBounds,
    reconnect_pause: Duration,
    positions: Vec<(ChatId, Sequence)>,
}

impl Client {
    /// A client of the server at `base_url`, `http://…` or `https://…`.
    pub fn builder(base_url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            base_url: base_url.into(),
            device_id: None,
            tokens: None,
            keeper: None,
            http: None,
            send_bounds: SendBounds::default(),
            reconnect_pause: Duration::from_secs(1),
            positions: Vec::new(),
        }
    }

    /// The REST calls, including sign-in.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Connects, and reconnects until [`ClientHandle::close`] is called, the [`Events`] are dropped or the user is
    /// signed out.
    ///
    /// It returns at once; [`Connected`](crate::ClientEvent::Connected) arrives as an event. The session tracks every
    /// chat of the user: from its entry in the [`positions`](ClientBuilder::positions), or else from the user's
    /// delivered watermark over all devices. Needs a Tokio runtime.
    pub fn connect(&self) -> Result<(ClientHandle, Events), ApiError> {
        if self.api.renew_at().is_none() {
            return Err(ApiError::NotSignedIn);
        }
        Ok(driver::spawn(self.api.clone(), self.send_bounds, self.reconnect_pause, &self.positions))
    }
}

impl ClientBuilder {
    /// The id of this device. Generate it once and store it: another id is another device. Random by default.
    pub fn device_id(self, device_id: DeviceId) -> Self {
        Self { device_id: Some(device_id), ..self }
    }

    /// The tokens of an earlier run, instead of a sign-in. [`keep_tokens`](Self::keep_tokens) provides them.
    pub fn tokens(self, tokens: Tokens) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Sets a callback that stores the tokens for the next run. It receives every new pair, and `None` after sign-out.
    ///
    /// A refresh token is valid once, so a run that starts with an old one is signed out. `keep` is therefore called
    /// before new tokens are used, and blocks the callers that wait for them. It should be quick, such as a write of a
    /// small file.
    pub fn keep_tokens(self, keep: impl Fn(Option<&Tokens>) + Send + Sync + 'static) -> Self {
        Self { keeper: Some(Box::new(keep)), ..self }
    }

    /// An HTTP client to share, with its connection pool and settings, among many clients of one process.
    pub fn http(self, http: reqwest::Client) -> Self {
        Self { http: Some(http), ..self }
    }

    /// Bounds of the send queue and of the sends in flight.
    pub fn send_bounds(self, send_bounds: SendBounds) -> Self {
        Self { send_bounds, ..self }
    }

    /// Initial reconnect delay, 1 s by default; it doubles with every failure up to 30 s. Use a shorter one only for a
    /// client that does not share its server: many clients of a failed server would reconnect at once.
    pub fn reconnect_pause(self, reconnect_pause: Duration) -> Self {
        Self { reconnect_pause, ..self }
    }

    /// The last stored sequence of each chat. A device that stores messages has to provide these at its start;
    /// otherwise it misses messages that the user's other devices received meanwhile.
    pub fn positions(self, positions: impl IntoIterator<Item = (ChatId, Sequence)>) -> Self {
        Self { positions: positions.into_iter().collect(), ..self }
    }

    /// Builds the client without any I/O.
    pub fn build(self) -> Result<Client, BaseUrlError> {
        let device_id = self.device_id.unwrap_or_else(|| Uuid::new_v4().into());
        let api = Api::new(&self.base_url, device_id, self.http, self.keeper)?;
        if let Some(tokens) = self.tokens {
            api.resume(tokens);
        }
        let Self { send_bounds, reconnect_pause, positions, .. } = self;
        Ok(Client { api, send_bounds, reconnect_pause, positions })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("base_url", &self.base_url)
            .field("device_id", &self.device_id)
            .field("send_bounds", &self.send_bounds)
            .finish_non_exhaustive()
    }
}
