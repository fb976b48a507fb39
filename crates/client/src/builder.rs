use std::fmt;
use std::time::Duration;

use domain::{ChatId, DeviceId, Sequence};
use protocol::client::SendBounds;
use protocol::rest::Tokens;
use uuid::Uuid;

use crate::driver;
use crate::tokens::Keeper;
use crate::{Api, ApiError, BaseUrlError, ClientHandle, Events};

/// One device's way to a server.
#[derive(Clone, Debug)]
pub struct Client {
    api: Api,
    send_bounds: SendBounds,
    reconnect_pause: Duration,
    positions: Vec<(ChatId, Sequence)>,
}

/// What a [`Client`] is made of.
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

    /// The REST calls: signing in among them.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Connects and stays so until [`ClientHandle::close`] is called, the [`Events`] are dropped or the user is signed out.
    ///
    /// It returns at once; [`Connected`](crate::ClientEvent::Connected) comes as an event. Every chat of the user is
    /// followed: from its place among the [`positions`](ClientBuilder::positions), or else from the place up to which the
    /// user has received it on any device. Needs a Tokio runtime.
    pub fn connect(&self) -> Result<(ClientHandle, Events), ApiError> {
        if self.api.renew_at().is_none() {
            return Err(ApiError::NotSignedIn);
        }
        Ok(driver::spawn(self.api.clone(), self.send_bounds, self.reconnect_pause, &self.positions))
    }
}

impl ClientBuilder {
    /// The device's own id. It should be made once and kept: another one is another device. Random unless given.
    pub fn device_id(self, device_id: DeviceId) -> Self {
        Self { device_id: Some(device_id), ..self }
    }

    /// The tokens of an earlier run, instead of signing in. [`keep_tokens`](Self::keep_tokens) is where they come from.
    pub fn tokens(self, tokens: Tokens) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Is given the tokens whenever there are new ones, and `None` once the user has signed out, to keep for the next run.
    ///
    /// A refresh token is good once, so a run that begins with an old one is signed out. That is why `keep` is called
    /// before new tokens are used, and blocks whoever waits for them: it should be quick, as writing a small file is.
    pub fn keep_tokens(self, keep: impl Fn(Option<&Tokens>) + Send + Sync + 'static) -> Self {
        Self { keeper: Some(Box::new(keep)), ..self }
    }

    /// An HTTP client to share, with its connections and settings, among many clients of one process.
    pub fn http(self, http: reqwest::Client) -> Self {
        Self { http: Some(http), ..self }
    }

    /// How many sends may wait, and how many be under way at once.
    pub fn send_bounds(self, send_bounds: SendBounds) -> Self {
        Self { send_bounds, ..self }
    }

    /// The first pause before a reconnect, 1 s unless given; it doubles with every failure, to 30 s. Something shorter is
    /// for a client that is alone with its server: a thousand that lost the same server would all come back at once.
    pub fn reconnect_pause(self, reconnect_pause: Duration) -> Self {
        Self { reconnect_pause, ..self }
    }

    /// How far this device has come in each chat: the last sequence of which it has stored the messages. A device that
    /// keeps messages gives these when it starts, or it misses what the user's other devices received meanwhile.
    pub fn positions(self, positions: impl IntoIterator<Item = (ChatId, Sequence)>) -> Self {
        Self { positions: positions.into_iter().collect(), ..self }
    }

    /// The client; nothing is sent yet.
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
