use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ports::trace::TARGET;
use ports::{error_chain, lock};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, info};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::{EnvFilter, reload};

use super::uncached_filter::UncachedFilter;

/// Limits the store engine's lines about every file it touches; naming the crate in the level overrides it.
const QUIET: &str = "fjall=warn,lsm_tree=warn";
/// Libraries that log frames, requests and responses at the levels `debug` and `trace`, by the prefix of their names.
const INDISCREET: [&str; 2] = ["aws_", "tungstenite"];
/// Our crates, by their names without the prefix.
const PLANES: [&str; 18] = [
    "audit", "auth", "chats", "client", "dynamodb", "embedded", "fanout", "gateway", "ingest", "kafka", "keyfile",
    "notify", "ports", "presence", "redis", "rpc", "server", "webhook",
];
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Unusable directives.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LevelError {
    #[error(
        "`{0}` is not a level; use off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
    )]
    NoLevel(String),
    #[error("`{directives}` cannot be read")]
    Directives {
        directives: String,
        #[source]
        source: ParseError,
    },
    #[error("the level can no longer be changed")]
    Gone(#[source] reload::Error),
}

/// Builds the filter of log lines from a level, or from directives separated by commas. With `spans`, lines have the
/// fields of their enclosing spans, at any level.
pub(super) fn filter(directives: &str, spans: bool) -> Result<EnvFilter, LevelError> {
    let mut all = vec![QUIET.to_owned()];
    if spans {
        all.push(format!("{TARGET}=debug"));
    }
    for directive in directives.split(',').map(str::trim) {
        let (target, level) =
            directive.split_once('=').map_or((None, directive), |(target, level)| (Some(target), level));
        // A directive with the name or fields of a span is not checked here.
        let is_plain = !directive.contains(['[', ']', '{', '}']);
        if is_plain && !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            return Err(LevelError::NoLevel(directive.to_owned()));
        }
        // `gateway` alone would not match our crate, `tidings_gateway`.
        let is_ours = target.is_some_and(|target| PLANES.contains(&target.split("::").next().unwrap_or(target)));
        all.push(if is_plain && is_ours { format!("tidings_{directive}") } else { directive.to_owned() });
    }
    EnvFilter::try_new(all.join(","))
        .map_err(|source| LevelError::Directives { directives: directives.to_owned(), source })
}

/// Excludes lines of libraries that contain payloads: message contents, tokens, phone numbers. No setting can enable
/// them, so they cannot be enabled by mistake.
pub(super) fn discretion() -> UncachedFilter {
    let is_discreet = |metadata: &Metadata<'_>| {
        *metadata.level() <= Level::INFO || !INDISCREET.iter().any(|name| metadata.target().starts_with(name))
    };
    UncachedFilter::new(is_discreet, LevelFilter::TRACE)
}

/// The log level, which an operator may change while the process runs.
#[derive(Clone)]
pub(crate) struct LogLevel(Arc<LogLevelState>);

struct LogLevelState {
    apply: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    spans: bool,
    standing: Mutex<LevelState>,
    /// Notifies [`LogLevel::keep`] that the expiry has changed.
    changed: Notify,
}

#[derive(Clone)]
struct LevelState {
    configured: String,
    now: String,
    /// When the configured level returns.
    until: Option<Instant>,
}

/// The current log level, and how long it lasts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogLevelStatus {
    pub(crate) level: String,
    pub(crate) configured: String,
    /// How long a temporary level remains in effect; absent if it does not expire.
    pub(crate) left: Option<Duration>,
}

impl LogLevel {
    pub(crate) fn new(
        configured: &str,
        spans: bool,
        apply: impl Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync + 'static,
    ) -> Self {
        let standing = LevelState { configured: configured.to_owned(), now: configured.to_owned(), until: None };
        let apply = Box::new(apply);
        Self(Arc::new(LogLevelState { apply, spans, standing: Mutex::new(standing), changed: Notify::new() }))
    }

    pub(crate) fn standing(&self) -> LogLevelStatus {
        let LevelState { configured, now, until } = self.lock().clone();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        LogLevelStatus { level: now, configured, left }
    }

    /// Changes the level, for a time or until the next change. The configured level stays unchanged.
    pub(crate) fn set(&self, level: &str, lasts: Option<Duration>) -> Result<(), LevelError> {
        self.change(level, |standing| standing.until = lasts.map(|lasts| Instant::now() + lasts))
    }

    /// Sets the configured level, and logs at it.
    pub(crate) fn configure(&self, level: &str) -> Result<(), LevelError> {
        self.change(level, |standing| {
            standing.configured = level.to_owned();
            standing.until = None;
        })
    }

    fn change(&self, level: &str, note: impl FnOnce(&mut LevelState)) -> Result<(), LevelError> {
        let filter = filter(level, self.0.spans)?;
        let mut standing = self.lock();
        (self.0.apply)(filter).map_err(LevelError::Gone)?;
        note(&mut standing);
        standing.now = level.to_owned();
        drop(standing);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Returns to the configured level whenever a temporary one has expired, until it is stopped.
    pub(crate) async fn keep(&self) {
        loop {
            let until = self.lock().until;
            let over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => self.go_back(),
                () = self.0.changed.notified() => {}
            }
        }
    }

    fn go_back(&self) {
        let standing = self.lock().clone();
        // The level has just been changed again; the next iteration handles it.
        if standing.until.is_none_or(|until| until > Instant::now()) {
            return;
        }
        match self.configure(&standing.configured) {
            Ok(()) => info!(level = standing.configured, "the log level is back at the configured one"),
            Err(failure) => {
                self.lock().until = None;
                tracing::error!(
                    error = %error_chain(&failure),
                    "could not return to the configured log level; keeping the current one"
                );
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LevelState> {
        lock(&self.0.standing)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn refused(directives: &str, expected: Expect) {
        expected.assert_eq(&filter(directives, false).unwrap_err().to_string());
    }

    #[test]
    fn directives_name_parts_of_the_service_as_people_do() {
        let filters = |text: &str| filter(text, true).unwrap().to_string();
        let all = filters("info,gateway=debug,rpc::link=trace,hyper=warn");
        for directive in
            ["info", "tidings_gateway=debug", "tidings_rpc::link=trace", "hyper=warn", "tidings::trace=debug"]
        {
            assert!(all.split(',').any(|one| one == directive), "{directive} is in {all}");
        }
        assert!(!filter("info", false).unwrap().to_string().contains(TARGET));
        assert!(
            filters("info,[command{chat_id=x}]=trace").contains("chat_id"),
            "directives with spans are passed through"
        );
    }

    #[test]
    fn an_invalid_level_is_refused_by_name() {
        refused(
            "inof",
            expect![
                "`inof` is not a level; use off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
            ],
        );
        refused(
            "info,gateway=loud",
            expect![
                "`gateway=loud` is not a level; use off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
            ],
        );
        refused("info,[x{=debug", expect!["`info,[x{=debug` cannot be read"]);
        refused(
            "",
            expect![
                "`` is not a level; use off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
            ],
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_temporary_level_expires_and_the_configured_one_returns() {
        let applied = Arc::new(Mutex::new(vec![]));
        let noted = applied.clone();
        let level = LogLevel::new("warn", false, move |filter: EnvFilter| {
            let levels = filter.to_string();
            noted.lock().unwrap().push(levels.rsplit(',').next().unwrap().to_owned());
            Ok(())
        });
        let keeping = level.clone();
        let kept = tokio::spawn(async move { keeping.keep().await });
        level.set("debug", Some(Duration::from_secs(600))).unwrap();
        level.set("nonsense", Some(Duration::from_secs(1))).unwrap_err();
        tokio::time::sleep(Duration::from_secs(599)).await;
        let left = Some(Duration::from_secs(1));
        assert_eq!(level.standing(), LogLevelStatus { level: "debug".into(), configured: "warn".into(), left });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(level.standing(), LogLevelStatus { level: "warn".into(), configured: "warn".into(), left: None });
        level.set("trace", None).unwrap();
        level.configure("error").unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(level.standing(), LogLevelStatus { level: "error".into(), configured: "error".into(), left: None });
        kept.abort();
        assert_eq!(applied.lock().unwrap().len(), 4, "{applied:?}");
    }
}
