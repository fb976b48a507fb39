use crossterm::event::{Event, EventStream, KeyEvent, KeyEventKind};
use futures_util::StreamExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Input from the user and the terminal.
pub(crate) enum Input {
    Key(KeyEvent),
    Paste(String),
    Focus(bool),
    /// The terminal was resized; the next draw uses the new size.
    Resized,
    /// The terminal was closed, or the process received a termination signal.
    End,
}

/// Terminal events and process signals.
pub(crate) struct Inputs {
    events: EventStream,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Inputs {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            events: EventStream::new(),
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next input. Cancel safe.
    pub(crate) async fn next(&mut self) -> Input {
        loop {
            let event = tokio::select! {
                event = self.events.next() => event,
                _ = self.terminate.recv() => return Input::End,
                _ = self.interrupt.recv() => return Input::End,
                _ = self.hang_up.recv() => return Input::End,
            };
            match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => return Input::Key(key),
                Some(Ok(Event::Paste(text))) => return Input::Paste(text),
                Some(Ok(Event::FocusGained)) => return Input::Focus(true),
                Some(Ok(Event::FocusLost)) => return Input::Focus(false),
                Some(Ok(Event::Resize(..))) => return Input::Resized,
                Some(Ok(Event::Key(_) | Event::Mouse(_))) => {}
                Some(Err(_)) | None => return Input::End,
            }
        }
    }
}
