use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::TermLike;

/// Interval between two lines.
const EVERY: Duration = Duration::from_secs(5);
/// Width that a progress bar may use.
const COLUMNS: u16 = 120;

/// The target of a progress bar that is no terminal: a pipe, a file or the log of a job. It gets the text of the bar as a
/// line every few seconds, and none before the first few seconds, so that short work prints nothing.
pub(super) struct ProgressLines {
    every: Duration,
    state: Mutex<LinesState>,
}

struct LinesState {
    out: Box<dyn Write + Send>,
    /// The text that is being drawn.
    text: String,
    written_at: Instant,
}

impl ProgressLines {
    fn new(out: Box<dyn Write + Send>, every: Duration) -> Self {
        Self { every, state: Mutex::new(LinesState { out, text: String::new(), written_at: Instant::now() }) }
    }

    fn draw(&self, text: &str) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).text.push_str(text);
    }
}

impl Default for ProgressLines {
    fn default() -> Self {
        Self::new(Box::new(io::stderr()), EVERY)
    }
}

impl fmt::Debug for ProgressLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressLines").field("every", &self.every).finish_non_exhaustive()
    }
}

impl TermLike for ProgressLines {
    fn width(&self) -> u16 {
        COLUMNS
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.draw(text);
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.draw(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::mem::take(&mut state.text);
        let text = text.trim();
        if text.is_empty() || state.written_at.elapsed() < self.every {
            return Ok(());
        }
        state.written_at = Instant::now();
        writeln!(state.out, "{text}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

    use super::*;

    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(every: Duration) -> String {
        let pipe = Pipe::default();
        let bar =
            ProgressBar::no_length().with_style(ProgressStyle::with_template("{pos}/{len} rows ({msg})").unwrap());
        let target = ProgressLines::new(Box::new(pipe.clone()), every);
        bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(target), 1));
        bar.set_length(30);
        for (stage, read) in [("log", 10), ("chats", 20), ("chats", 30)] {
            bar.set_message(stage);
            bar.set_position(read);
            bar.force_draw();
        }
        bar.finish_and_clear();
        String::from_utf8(pipe.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn the_text_of_a_bar_is_written_as_lines_and_not_more_often_than_the_interval() {
        let all = lines(Duration::ZERO);
        let distinct: Vec<&str> = all.lines().collect();
        for line in ["10/30 rows (log)", "20/30 rows (chats)", "30/30 rows (chats)"] {
            assert!(distinct.contains(&line), "{all}");
        }
        assert_eq!(lines(Duration::from_secs(3600)), "");
    }
}
