use std::fmt;
use std::str::FromStr;

/// A position in a trace: trace id, span id, and whether the trace is sampled.
///
/// The text form is the W3C header `traceparent`, through which processes and clients propagate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    pub sampled: bool,
}

/// An invalid `traceparent`. The error does not repeat the text, because any client can send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a traceparent of the form 00-<32 hex digits>-<16 hex digits>-<2 hex digits>")]
pub struct TraceContextError;

impl TraceContext {
    /// The name of the header in HTTP requests, log records and calls.
    pub const HEADER: &'static str = "traceparent";
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [trace_id, span_id] = [u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.span_id).into()];
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(self.sampled))
    }
}

impl FromStr for TraceContext {
    type Err = TraceContextError;

    /// Parses the fields that all versions have, and ignores additional fields of later versions.
    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        let mut parts = text.split('-');
        let mut hex = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_hex = part.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
            is_hex.then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let read = [hex(2), hex(32), hex(16), hex(2)];
        let [Some(version), Some(trace_id), Some(span_id), Some(flags)] = read else { return Err(TraceContextError) };
        let has_more = parts.next().is_some();
        // All-zero ids and version ff are invalid.
        if trace_id == 0 || span_id == 0 || version == 0xff || (version == 0 && has_more) {
            return Err(TraceContextError);
        }
        let [.., a, b, c, d, e, f, g, h] = span_id.to_be_bytes();
        let span_id = [a, b, c, d, e, f, g, h];
        Ok(Self { trace_id: trace_id.to_be_bytes(), span_id, sampled: flags & 1 == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_reads_back_as_it_was_written() {
        for text in [TEXT, &TEXT.replace("-01", "-00")] {
            assert_eq!(text.parse::<TraceContext>().unwrap().to_string(), text);
        }
        let context: TraceContext = TEXT.parse().unwrap();
        assert_eq!((context.trace_id[0], context.span_id[1], context.sampled), (0x4b, 0xf0, true));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known_and_other_flags_are_left_out() {
        let later = TEXT.replacen("00-", "01-", 1) + "-more";
        assert_eq!(later.parse::<TraceContext>().unwrap().to_string(), TEXT);
        assert_eq!(TEXT.replace("-01", "-02").parse::<TraceContext>().unwrap().to_string(), TEXT.replace("-01", "-00"));
    }

    #[test]
    fn invalid_texts_are_refused() {
        let zeros = "0".repeat(32);
        let refused = [
            String::new(),
            "é".repeat(28),
            TEXT.to_uppercase(),
            TEXT.replacen("00-", "ff-", 1),
            format!("{TEXT}-more"),
            TEXT[..54].to_owned(),
            TEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &zeros),
            TEXT.replace("00f067aa0ba902b7", &zeros[..16]),
            TEXT.replace("00f067", "+0f067"),
        ];
        for text in refused {
            assert_eq!(text.parse::<TraceContext>(), Err(TraceContextError), "{text}");
        }
    }
}
