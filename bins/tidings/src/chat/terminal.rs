use std::io::{self, Stdout, stdout};

use anyhow::Context;
use crossterm::event::{DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// The person's terminal, taken over while this lives. It is given back as it was, also on a panic.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(crate) fn take() -> anyhow::Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        enable_raw_mode().context("this terminal cannot be drawn on; --send and --tail need none")?;
        // From here on dropping it gives the terminal back.
        let screen = Self { terminal };
        // The message of a panic would be lost on the other screen, and the shell behind it unusable.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            report(panic);
        }));
        execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste, EnableFocusChange)?;
        Ok(screen)
    }

    pub(crate) fn draw<T: Default>(&mut self, draw: impl FnOnce(&mut Frame<'_>) -> T) -> anyhow::Result<T> {
        let mut drawn = T::default();
        self.terminal.draw(|frame| drawn = draw(frame)).context("the terminal is gone")?;
        Ok(drawn)
    }

    /// Draws attention, in the way that the person has told their terminal to.
    pub(crate) fn ring(&mut self) -> io::Result<()> {
        execute!(stdout(), crossterm::style::Print('\u{7}'))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Nobody is left to tell if it fails: the terminal is gone then.
fn give_back() {
    let _ =
        execute!(stdout(), DisableFocusChange, DisableBracketedPaste, LeaveAlternateScreen, crossterm::cursor::Show);
    let _ = disable_raw_mode();
}
