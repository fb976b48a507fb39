use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};

use crate::server::PATIENCE;

/// A `tidings chat` in a pseudo-terminal: its output is parsed as a terminal does, and keys can be pressed.
pub(crate) struct Terminal {
    screen: Arc<EmulatedScreen>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    /// Held open, so that the terminal's state can be inspected after the process has ended.
    _slave: Box<dyn SlavePty + Send>,
    modes_before: String,
}

struct EmulatedScreen {
    parser: Mutex<vt100::Parser>,
    drawn: Condvar,
}

/// Columns and rows at the start.
pub(crate) const SIZE: (u16, u16) = (80, 24);

impl Terminal {
    /// Starts it for the server, with the profile of that name below `home`.
    pub(crate) fn start(home: &Path, profile: &str, server: &str) -> Self {
        let (columns, rows) = SIZE;
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_tidings"));
        command.args(["chat", "--server", server, "--profile", profile]);
        command.env("XDG_STATE_HOME", home);
        command.env("TERM", "xterm");
        command.env("TZ", "UTC");
        let modes_before = modes(&*pair.master);
        let child = pair.slave.spawn_command(command).unwrap();
        let screen = Arc::new(EmulatedScreen {
            parser: Mutex::new(vt100::Parser::new(at_least_one(rows), at_least_one(columns), 0)),
            drawn: Condvar::new(),
        });
        let (reading, mut output) = (Arc::clone(&screen), pair.master.try_clone_reader().unwrap());
        // Ends with the terminal, when there is nothing more to read.
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut chunk) {
                reading.parser().process(&chunk[..len]);
                reading.drawn.notify_all();
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Self { screen, keys, child, master: pair.master, _slave: pair.slave, modes_before }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the screen shows a text, and returns all of it.
    #[track_caller]
    pub(crate) fn until(&self, text: &str) -> String {
        self.until_so(&format!("{text:?}"), |screen| screen.contents().contains(text))
    }

    #[track_caller]
    pub(crate) fn until_so(&self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut parser = self.screen.parser();
        while !is_so(parser.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} does not come to the screen:\n{}", parser.screen().contents());
            (parser, _) = self.screen.drawn.wait_timeout(parser, left).unwrap();
        }
        parser.screen().contents()
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.screen.parser().set_size(at_least_one(rows), at_least_one(columns));
        self.master.resize(size(columns, rows)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().expect("it runs");
        kill(Pid::from_raw(pid.try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the end of the process, and returns its exit code.
    pub(crate) fn exited(&mut self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.screen.parser().screen().contents());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Asserts that the terminal is as it was before.
    #[track_caller]
    pub(crate) fn assert_given_back(&self) {
        let is_plain =
            |screen: &vt100::Screen| !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste();
        self.until_so("the screen before", is_plain);
        assert_eq!(modes(&*self.master), self.modes_before);
    }
}

impl EmulatedScreen {
    fn parser(&self) -> MutexGuard<'_, vt100::Parser> {
        self.parser.lock().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors mean that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn at_least_one(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a screen has rows and columns")
}

/// Echo, line editing and signals: how the terminal handles keys.
fn modes(master: &dyn MasterPty) -> String {
    let termios = master.get_termios().expect("a terminal of Unix has modes");
    format!("{:?} {:?} {:?}", termios.input_flags, termios.output_flags, termios.local_flags)
}
