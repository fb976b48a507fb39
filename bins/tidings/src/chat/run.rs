use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use client::{Ack, Api, Client, ClientHandle, Events, SendError, SessionClosed};
use domain::{ChatId, ClientMessageId, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use jiff::tz::TimeZone;
use protocol::frame::{SendMessage, SendMessageAck, UpdateMessage};
use protocol::rest::UpdateMe;
use tokio::time::timeout;
use uuid::Uuid;

use super::app::ChatApp;
use super::app::effect::{ApiRequest, ApiResult, Effect, ExitReason};
use super::app::sign_in::{SignIn, SignInAnswer, SignInEffect, SignInOutcome};
use super::errands;
use super::input::{Input, Inputs};
use super::profile::{Profile, SignedInUser, TakenUp};
use super::terminal::TerminalScreen;
use super::view::{self, Theme};

/// Maximum number of concurrent requests; further ones are queued, without duplicates.
const ERRANDS_MAX: usize = 4;
/// Maximum number of events handled between two draws.
const EVENTS_PER_DRAWING: usize = 256;
/// Longest time to wait for the connection to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the client on this terminal until the user ends it.
pub(crate) async fn run(profile: Profile, client: Client) -> anyhow::Result<ExitCode> {
    let theme = Theme::from_environment();
    let mut screen = TerminalScreen::take()?;
    let mut inputs = Inputs::new()?;
    let person = match profile.person() {
        Some(person) => person,
        None => match sign_in(&mut screen, &mut inputs, client.api(), theme).await? {
            Some(person) => person,
            None => return Ok(ExitCode::SUCCESS),
        },
    };
    profile.keep_person(&person)?;
    let ended = ChatSession::start(profile.clone(), &client, person)?.run(&mut screen, &mut inputs, theme).await?;
    drop(screen);
    match ended {
        ExitReason::Quit => Ok(ExitCode::SUCCESS),
        ExitReason::SignedOut => {
            profile.keep_tokens(None)?;
            bail!("this device was signed out; run `tidings chat` again to sign in")
        }
        ExitReason::TakenOver => bail!("this device has connected from elsewhere, which ended this connection"),
    }
}

/// Runs the sign-in dialog. `None` if the user quit instead.
async fn sign_in(
    screen: &mut TerminalScreen,
    inputs: &mut Inputs,
    api: &Api,
    theme: Theme,
) -> anyhow::Result<Option<SignedInUser>> {
    let mut sign_in = SignIn::default();
    let mut asked = FuturesUnordered::new();
    loop {
        while let Some(effect) = sign_in.poll_effect() {
            asked.push(answer(api.clone(), effect));
        }
        screen.draw(|frame| view::sign_in::draw(frame, &sign_in, api.base_url(), theme))?;
        tokio::select! {
            input = inputs.next() => match input {
                Input::Key(key) => sign_in.handle_key(key),
                Input::Paste(text) => sign_in.handle_paste(&text),
                Input::Focus(_) | Input::Resized => {}
                Input::End => return Ok(None),
            },
            Some(answer) = asked.next(), if !asked.is_empty() => sign_in.handle_answer(answer),
        }
        match sign_in.outcome() {
            Some(SignInOutcome::SignedIn { user_id, name }) => {
                return Ok(Some(SignedInUser { user_id: *user_id, name: name.clone() }));
            }
            Some(SignInOutcome::Quit) => return Ok(None),
            None => {}
        }
    }
}

async fn answer(api: Api, effect: SignInEffect) -> SignInAnswer {
    let answer = match effect {
        SignInEffect::RequestCode { phone_number } => {
            api.request_otp(&phone_number).await.map(|_| SignInAnswer::CodeSent)
        }
        SignInEffect::Verify { phone_number, code } => {
            api.verify_otp(&phone_number, &code, None).await.map(|signed_in| SignInAnswer::Verified {
                user_id: signed_in.user.user.user_id,
                name: signed_in.user.user.display_name,
                is_new_user: signed_in.is_new_user,
            })
        }
        SignInEffect::Rename { name } => {
            let update = UpdateMe { display_name: Some(name), ..UpdateMe::default() };
            api.update_me(&update).await.map(|me| SignInAnswer::Renamed { name: me.user.display_name })
        }
    };
    answer.unwrap_or_else(|error| SignInAnswer::Failed { why: errands::explain(&error) })
}

/// The result of one send or update.
struct SendCompletion {
    kind: SendKind,
    chat_id: ChatId,
    client_message_id: ClientMessageId,
    outcome: Result<SendMessageAck, SendError>,
}

#[derive(Clone, Copy)]
enum SendKind {
    Message,
    Update,
}

/// The app with its connection, profile and pending requests.
struct ChatSession {
    app: ChatApp,
    profile: Profile,
    api: Api,
    handle: ClientHandle,
    events: Events,
    sends: FuturesUnordered<BoxFuture<'static, SendCompletion>>,
    requests: VecDeque<ApiRequest>,
    errands: FuturesUnordered<BoxFuture<'static, ApiResult>>,
}

impl ChatSession {
    fn start(profile: Profile, client: &Client, person: SignedInUser) -> anyhow::Result<Self> {
        let SignedInUser { user_id, name } = person;
        let app = ChatApp::new(user_id, name, TimeZone::system(), || Uuid::new_v4().into());
        let (handle, events) = client.connect()?;
        let api = client.api().clone();
        let (sends, requests, errands) = (FuturesUnordered::new(), VecDeque::new(), FuturesUnordered::new());
        Ok(Self { app, profile, api, handle, events, sends, requests, errands })
    }

    async fn run(
        mut self,
        screen: &mut TerminalScreen,
        inputs: &mut Inputs,
        theme: Theme,
    ) -> anyhow::Result<ExitReason> {
        self.take_up_unsent().await?;
        loop {
            self.act(screen).await?;
            let seen = screen.draw(|frame| view::draw(frame, &self.app, now(), theme))?;
            self.app.handle_seen(now(), seen);
            self.act(screen).await?;
            if let Some(ended) = self.app.ended() {
                self.say_goodbye().await;
                return Ok(ended);
            }
            self.take_next(inputs).await;
        }
    }

    /// Sends the unsent messages and updates of an earlier run.
    async fn take_up_unsent(&mut self) -> anyhow::Result<()> {
        let TakenUp { fresh, updates, stale } = self.profile.take_up_unsent(now())?;
        if !stale.is_empty() {
            let count = stale.len();
            self.app.say(now(), format!("{count} messages of last week were not sent; the up key brings them back"));
        }
        for text in stale {
            self.app.remember(text);
        }
        for (message, written_at) in fresh {
            self.app.restore(message.clone(), written_at);
            self.submit(message).await;
        }
        for update in updates {
            self.submit_update(update).await;
        }
        Ok(())
    }

    /// Performs the effects of the app until there are none left.
    async fn act(&mut self, screen: &mut TerminalScreen) -> anyhow::Result<()> {
        let mut rings = false;
        while let Some(effect) = self.app.poll_effect() {
            let told = match effect {
                Effect::Send { message, written_at } => {
                    if let Err(error) = self.profile.keep_unsent(&message, written_at) {
                        self.app.say(now(), format!("sent if this program goes on running: {error:#}"));
                    }
                    self.submit(message).await;
                    Ok(())
                }
                Effect::Update { update, written_at } => {
                    if let Err(error) = self.profile.keep_unsent_update(&update, written_at) {
                        self.app.say(now(), format!("changed if this program goes on running: {error:#}"));
                    }
                    self.submit_update(update).await;
                    Ok(())
                }
                Effect::MarkRead { chat_id, sequence } => self.handle.mark_read(chat_id, sequence).await,
                Effect::Typing { chat_id, is_typing } => self.handle.typing(chat_id, is_typing).await,
                Effect::Watch(user_ids) => self.handle.watch(user_ids).await,
                Effect::Ask(request) => {
                    if !self.requests.contains(&request) {
                        self.requests.push_back(request);
                    }
                    Ok(())
                }
                Effect::Ring => {
                    rings = true;
                    Ok(())
                }
            };
            // An error means that the session has ended, and its last event has reported that.
            let _ = told;
        }
        while self.errands.len() < ERRANDS_MAX
            && let Some(request) = self.requests.pop_front()
        {
            self.errands.push(errands::run(self.api.clone(), request).boxed());
        }
        if rings {
            screen.ring()?;
        }
        Ok(())
    }

    async fn submit(&mut self, message: SendMessage) {
        let SendMessage { chat_id, client_message_id, .. } = message;
        let submitted = self.handle.submit(message).await;
        self.await_outcome(SendKind::Message, chat_id, client_message_id, submitted);
    }

    async fn submit_update(&mut self, update: UpdateMessage) {
        let UpdateMessage { chat_id, client_message_id, .. } = update;
        let submitted = self.handle.submit_update(update).await;
        self.await_outcome(SendKind::Update, chat_id, client_message_id, submitted);
    }

    fn await_outcome(
        &mut self,
        kind: SendKind,
        chat_id: ChatId,
        client_message_id: ClientMessageId,
        submitted: Result<Ack, SessionClosed>,
    ) {
        let outcome = async move {
            match submitted {
                Ok(ack) => ack.await,
                Err(closed) => Err(closed.into()),
            }
        };
        let completed = move |outcome| SendCompletion { kind, chat_id, client_message_id, outcome };
        self.sends.push(outcome.map(completed).boxed());
    }

    /// Waits for the next input and handles it.
    async fn take_next(&mut self, inputs: &mut Inputs) {
        let pause = self.app.poll_timeout(now()).map_or(Duration::from_secs(3600), |at| at.since(now()));
        tokio::select! {
            input = inputs.next() => self.handle_input(input),
            event = self.events.next() => self.handle_events(event),
            Some(sent) = self.sends.next(), if !self.sends.is_empty() => self.handle_sent(sent),
            Some(answer) = self.errands.next(), if !self.errands.is_empty() => self.app.handle_answer(now(), answer),
            () = tokio::time::sleep(pause) => {}
        }
        self.app.handle_timeout(now());
    }

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::Key(key) => self.app.handle_key(now(), key),
            Input::Paste(text) => self.app.handle_paste(now(), &text),
            Input::Focus(is_focused) => self.app.handle_focus(is_focused),
            Input::Resized => {}
            Input::End => self.app.quit(),
        }
    }

    /// Handles an event and those queued after it, so that a burst is drawn once.
    fn handle_events(&mut self, event: Option<client::ClientEvent>) {
        let mut next = event;
        for _ in 0..EVENTS_PER_DRAWING {
            let Some(event) = next else { return self.app.quit() };
            self.app.handle_event(now(), event);
            match self.events.next().now_or_never() {
                Some(event) => next = event,
                None => return,
            }
        }
        if let Some(event) = next {
            self.app.handle_event(now(), event);
        }
    }

    fn handle_sent(&mut self, SendCompletion { kind, chat_id, client_message_id, outcome }: SendCompletion) {
        if matches!(outcome, Err(SendError::Closed(_))) {
            // The session has ended. The message or update stays in the profile for the next run.
            return;
        }
        if let Err(error) = self.profile.forget_unsent(client_message_id) {
            self.app.say(now(), format!("{error:#}"));
        }
        let outcome = outcome.map_err(|error| error.to_string());
        match kind {
            SendKind::Message => self.app.handle_sent(now(), chat_id, client_message_id, outcome),
            SendKind::Update => self.app.handle_updated(now(), chat_id, client_message_id, outcome),
        }
    }

    async fn say_goodbye(self) {
        if timeout(CLOSE_TIMEOUT, self.handle.close()).await.is_err() {
            tracing::debug!("left without a goodbye");
        }
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}
