//! The text that `strace` writes, as calls with a begin and an end.

use std::borrow::Cow;
use std::collections::HashMap;

/// The calls that are traced: every one that can change a file, a name or a file descriptor, and every one that makes
/// such a change durable.
pub(crate) const TRACED: &str = "open,openat,openat2,creat,close,close_range,dup,dup2,dup3,fcntl,lseek,write,writev,\
    pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,sendfile,splice,fsync,fdatasync,sync,syncfs,\
    sync_file_range,rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,symlinkat,mkdir,mkdirat,rmdir,mknod,\
    mknodat,mmap,msync,chmod,fchmod,fchmodat,ioctl,io_uring_setup,chdir,fchdir";

/// One system call.
pub(crate) struct SystemCall<'a> {
    pub(crate) name: &'a str,
    /// The text between its parentheses.
    pub(crate) arguments: Cow<'a, str>,
    /// The return value, negative for an error; none if the process ended before it did.
    pub(crate) result: Option<i64>,
}

/// The begin or the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEvent {
    Began(usize),
    Ended(usize),
}

/// Everything that was traced.
#[derive(Default)]
pub(crate) struct SystemTrace<'a> {
    pub(crate) calls: Vec<SystemCall<'a>>,
    pub(crate) events: Vec<CallEvent>,
    /// When each event was seen, in microseconds since the epoch.
    pub(crate) stamps: Vec<u64>,
}

impl<'a> SystemTrace<'a> {
    /// Parses what `strace -f -ttt -T -y -xx` wrote. Panics on a line that it does not understand.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut trace = Self::default();
        // The call that each thread has begun.
        let mut open: HashMap<&str, usize> = HashMap::new();
        for line in text.lines() {
            let parts = line.split_once(' ').map(|(thread, rest)| (thread, rest.trim_start().split_once(' ')));
            let Some((thread, Some((stamp, what)))) = parts else { panic!("strace wrote `{}`", shown(line)) };
            let stamp = micros(stamp).unwrap_or_else(|| panic!("`{}` has no time", shown(line)));
            if what.starts_with("+++ ") || what.starts_with("--- ") {
                continue;
            }
            if let Some(rest) = what.strip_prefix("<... ") {
                let (name, rest) = rest.split_once(" resumed>").unwrap_or_else(|| panic!("`{}`", shown(line)));
                let number = open.remove(thread).unwrap_or_else(|| panic!("`{}` was not begun", shown(line)));
                let (more, result, _) = ending(rest).unwrap_or_else(|| panic!("`{}`", shown(line)));
                let call = &mut trace.calls[number];
                assert_eq!(call.name, name, "{}", shown(line));
                if !more.is_empty() {
                    call.arguments.to_mut().push_str(more);
                }
                call.result = result;
                trace.event(CallEvent::Ended(number), stamp);
                continue;
            }
            let (name, rest) = what.split_once('(').unwrap_or_else(|| panic!("strace wrote `{}`", shown(line)));
            let number = trace.calls.len();
            trace.event(CallEvent::Began(number), stamp);
            if let Some(arguments) = rest.strip_suffix(" <unfinished ...>") {
                trace.calls.push(SystemCall { name, arguments: arguments.into(), result: None });
                assert_eq!(open.insert(thread, number), None, "{}", shown(line));
            } else {
                let (arguments, result, took) = ending(rest).unwrap_or_else(|| panic!("`{}`", shown(line)));
                trace.calls.push(SystemCall { name, arguments: arguments.into(), result });
                trace.event(CallEvent::Ended(number), stamp + took);
            }
        }
        trace
    }

    fn event(&mut self, event: CallEvent, stamp: u64) {
        self.events.push(event);
        self.stamps.push(stamp);
    }
}

/// Splits `arguments) = result <seconds>`; the result is none if the process ended meanwhile.
fn ending(text: &str) -> Option<(&str, Option<i64>, u64)> {
    let (arguments, end) = text.rsplit_once(") = ").or_else(|| {
        // Short calls are padded, so that their results align.
        let (arguments, end) = text.rsplit_once("= ")?;
        Some((arguments.trim_end().strip_suffix(')')?, end))
    })?;
    let (end, took) = match end.rsplit_once(" <").and_then(|(end, took)| Some((end, took.strip_suffix('>')?))) {
        Some((end, took)) => (end, micros(took)?),
        None => (end, 0),
    };
    let result = end.split([' ', '<']).next()?;
    let result = match result {
        "?" => None,
        _ => Some(match result.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
            None => result.parse().ok()?,
        }),
    };
    Some((arguments.trim_end(), result, took))
}

/// Seconds with six digits after the point.
fn micros(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    Some(seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?)
}

/// The beginning of a line, for a person.
pub(crate) fn shown(line: &str) -> &str {
    &line[..line.len().min(300)]
}

/// The arguments of a call, one by one, and the strings among them.
pub(crate) struct CallArguments<'a> {
    /// A string is `$` here.
    fields: Vec<String>,
    strings: Vec<&'a str>,
}

impl<'a> CallArguments<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        // Strings consist of `\xNN` alone, so no quote, comma or bracket is inside of one.
        let mut outside = String::new();
        let mut strings = vec![];
        for (number, piece) in text.split('"').enumerate() {
            if number % 2 == 0 {
                outside.push_str(piece);
            } else {
                outside.push('$');
                strings.push(piece);
            }
        }
        assert!(!outside.contains("..."), "strace has left something out of `{}`", shown(text));
        Self { fields: outside.split(", ").map(str::to_owned).collect(), strings }
    }

    pub(crate) fn field(&self, number: usize) -> &str {
        self.fields.get(number).map_or("", String::as_str)
    }

    pub(crate) fn last(&self) -> &str {
        self.fields.last().map_or("", String::as_str)
    }

    /// A number, decimal, hexadecimal or octal.
    pub(crate) fn number(&self, number: usize) -> i64 {
        let text = self.field(number);
        parse_number(text).unwrap_or_else(|| panic!("`{text}` is not a number"))
    }

    /// A string that names something.
    pub(crate) fn text(&self, number: usize) -> String {
        String::from_utf8(unhex(self.strings[number])).expect("our file names are UTF-8")
    }

    /// All strings, one after the other.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![];
        for text in &self.strings {
            bytes.extend(unhex(text));
        }
        bytes
    }
}

pub(crate) fn parse_number(text: &str) -> Option<i64> {
    if let Some(hex) = text.strip_prefix("0x") {
        i64::from_str_radix(hex, 16).ok()
    } else if let Some(octal) = text.strip_prefix('0').filter(|rest| !rest.is_empty()) {
        i64::from_str_radix(octal, 8).ok()
    } else {
        text.parse().ok()
    }
}

/// The bytes of a string of `\xNN`.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => panic!("`{}` is not hexadecimal", shown(text)),
    };
    assert_eq!(text.len() % 4, 0, "`{}` does not consist of \\xNN", shown(text));
    text.as_bytes().chunks_exact(4).map(|four| digit(four[2]) << 4 | digit(four[3])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_several_threads_are_put_together() {
        let text = r#"7  1794897389.515791 write(3<\x2f\x61>, "\x68\x69", 2) = 2 <0.000023>
7  1794897389.516000 fsync(3<\x2f\x61> <unfinished ...>
8  1794897389.516100 lseek(3<\x2f\x61>, 0, SEEK_CUR) = 2 <0.000010>
8  1794897389.516200 unlink("\x2f\x62") = -1 ENOENT (No such file or directory) <0.000010>
7  1794897389.517000 <... fsync resumed>) = 0 <0.001000>
8  1794897389.517500 write(4<\x2f\x62>(deleted), "\x00\xff", 2 <unfinished ...>
7  1794897389.517600 close(3<\x2f\x61>)        = 0 <0.000005>
7  1794897389.517700 --- SIGTERM {si_signo=SIGTERM} ---
8  1794897389.518000 <... write resumed>) = ?
8  1794897389.518100 +++ killed by SIGKILL +++
"#;
        let trace = SystemTrace::parse(text);
        let calls: Vec<_> = trace.calls.iter().map(|call| (call.name, call.result)).collect();
        let expected = [
            ("write", Some(2)),
            ("fsync", Some(0)),
            ("lseek", Some(2)),
            ("unlink", Some(-1)),
            ("write", None),
            ("close", Some(0)),
        ];
        assert_eq!(calls, expected);
        use CallEvent::{Began, Ended};
        let events = [
            Began(0),
            Ended(0),
            Began(1),
            Began(2),
            Ended(2),
            Began(3),
            Ended(3),
            Ended(1),
            Began(4),
            Began(5),
            Ended(5),
            Ended(4),
        ];
        assert_eq!(trace.events, events);
        assert_eq!(trace.stamps[1], 1_794_897_389_515_814);
        let arguments = CallArguments::parse(&trace.calls[0].arguments);
        assert_eq!((arguments.field(0), arguments.number(2), arguments.bytes()), (r"3<\x2f\x61>", 2, b"hi".to_vec()));
        assert_eq!(CallArguments::parse(&trace.calls[3].arguments).text(0), "/b");
    }

    #[test]
    #[should_panic(expected = "strace has left something out")]
    fn a_truncated_argument_is_not_taken_for_a_whole_one() {
        CallArguments::parse(r#"3, "\x61"..., 9"#);
    }
}
