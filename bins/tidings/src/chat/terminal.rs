use std::io::{self, Stdout, stdout};

use anyhow::Context;
use crossterm::event::{DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// The terminal in raw mode on its alternate screen. Dropping it restores the terminal, also on a panic.
pub(crate) struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl TerminalScreen {
    pub(crate) fn take() -> anyhow::Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        enable_raw_mode().context("this terminal cannot be drawn on; --send and --tail need none")?;
        // From here on, dropping it restores the terminal.
        let screen = Self { terminal };
        // A panic message on the alternate screen would be lost, and the shell would stay in raw mode.
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

    /// Rings the terminal bell.
    pub(crate) fn ring(&mut self) -> io::Result<()> {
        execute!(stdout(), crossterm::style::Print('\u{7}'))
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Errors are ignored: they mean that the terminal was closed.
fn give_back() {
    let _ =
        execute!(stdout(), DisableFocusChange, DisableBracketedPaste, LeaveAlternateScreen, crossterm::cursor::Show);
    let _ = disable_raw_mode();
}
