use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::trace::TARGET;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, info};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::{EnvFilter, reload};

use super::asked::Asked;

/// What the store's engine tells about every file it touches; whoever wants to hear it names it in the level.
const QUIET: &str = "fjall=warn,lsm_tree=warn";
/// Libraries that quote frames, requests and answers at the levels `debug` and `trace`, by the beginning of their names.
const INDISCREET: [&str; 2] = ["aws_", "tungstenite"];
/// Our crates, by the names that people know them by.
const PLANES: [&str; 18] = [
    "audit", "auth", "chats", "client", "dynamodb", "embedded", "fanout", "gateway", "ingest", "kafka", "keyfile",
    "notify", "ports", "presence", "redis", "rpc", "server", "webhook",
];
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Directives that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LevelError {
    #[error(
        "`{0}` is no level; say off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
    )]
    NoLevel(String),
    #[error("`{directives}` cannot be read")]
    Directives {
        directives: String,
        #[source]
        source: ParseError,
    },
    #[error("the level cannot be changed any more")]
    Gone(#[source] reload::Error),
}

/// What decides which lines are logged: a level, or directives with commas between. With `spans`, lines have the fields of
/// the spans that they are in, whatever the level.
pub(super) fn filter(directives: &str, spans: bool) -> Result<EnvFilter, LevelError> {
    let mut all = vec![QUIET.to_owned()];
    if spans {
        all.push(format!("{TARGET}=debug"));
    }
    for directive in directives.split(',').map(str::trim) {
        let (target, level) =
            directive.split_once('=').map_or((None, directive), |(target, level)| (Some(target), level));
        // One with the name or the fields of a span in it is for those who know the syntax.
        let is_plain = !directive.contains(['[', ']', '{', '}']);
        if is_plain && !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            return Err(LevelError::NoLevel(directive.to_owned()));
        }
        // `gateway` alone would be a crate of somebody else's.
        let is_ours = target.is_some_and(|target| PLANES.contains(&target.split("::").next().unwrap_or(target)));
        all.push(if is_plain && is_ours { format!("tidings_{directive}") } else { directive.to_owned() });
    }
    EnvFilter::try_new(all.join(","))
        .map_err(|source| LevelError::Directives { directives: directives.to_owned(), source })
}

/// What keeps the lines of libraries out of every log that quote what they carry: contents, tokens, phone numbers. Nobody can
/// ask for them, so nobody asks for them by mistake.
pub(super) fn discretion() -> Asked {
    let is_discreet = |metadata: &Metadata<'_>| {
        *metadata.level() <= Level::INFO || !INDISCREET.iter().any(|name| metadata.target().starts_with(name))
    };
    Asked::new(is_discreet, LevelFilter::TRACE)
}

/// What is logged, which an operator may change while the process runs.
#[derive(Clone)]
pub(crate) struct LogLevel(Arc<Shared>);

struct Shared {
    apply: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    spans: bool,
    standing: Mutex<Standing>,
    /// Tells [`LogLevel::keep`] that there is another end to wait for.
    changed: Notify,
}

#[derive(Clone)]
struct Standing {
    configured: String,
    now: String,
    /// When the configured level is back.
    until: Option<Instant>,
}

/// What is logged, and for how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LevelStanding {
    pub(crate) level: String,
    pub(crate) configured: String,
    /// How long the level stays that is not the configured one; for ever, if absent.
    pub(crate) left: Option<Duration>,
}

impl LogLevel {
    pub(crate) fn new(
        configured: &str,
        spans: bool,
        apply: impl Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync + 'static,
    ) -> Self {
        let standing = Standing { configured: configured.to_owned(), now: configured.to_owned(), until: None };
        let apply = Box::new(apply);
        Self(Arc::new(Shared { apply, spans, standing: Mutex::new(standing), changed: Notify::new() }))
    }

    pub(crate) fn standing(&self) -> LevelStanding {
        let Standing { configured, now, until } = self.lock().clone();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        LevelStanding { level: now, configured, left }
    }

    /// Logs at another level, for a while or until the next change. The configured one stays what it is.
    pub(crate) fn set(&self, level: &str, lasts: Option<Duration>) -> Result<(), LevelError> {
        self.change(level, |standing| standing.until = lasts.map(|lasts| Instant::now() + lasts))
    }

    /// Takes over what the configuration says now, and logs at it.
    pub(crate) fn configure(&self, level: &str) -> Result<(), LevelError> {
        self.change(level, |standing| {
            standing.configured = level.to_owned();
            standing.until = None;
        })
    }

    fn change(&self, level: &str, note: impl FnOnce(&mut Standing)) -> Result<(), LevelError> {
        let filter = filter(level, self.0.spans)?;
        let mut standing = self.lock();
        (self.0.apply)(filter).map_err(LevelError::Gone)?;
        note(&mut standing);
        standing.now = level.to_owned();
        drop(standing);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Goes back to the configured level whenever another one has lasted long enough, for ever.
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
        // Changed in this very moment, it is the business of the next round.
        if standing.until.is_none_or(|until| until > Instant::now()) {
            return;
        }
        match self.configure(&standing.configured) {
            Ok(()) => info!(level = standing.configured, "the log is back at its configured level"),
            Err(failure) => {
                self.lock().until = None;
                tracing::error!(error = &failure as &dyn std::error::Error, "the log stays at its level");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        // Each field is written whole.
        self.0.standing.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert!(filters("info,[command{chat_id=x}]=trace").contains("chat_id"), "what is not plain goes through");
    }

    #[test]
    fn what_is_no_level_is_refused_by_name() {
        refused(
            "inof",
            expect![
                "`inof` is no level; say off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
            ],
        );
        refused(
            "info,gateway=loud",
            expect![
                "`gateway=loud` is no level; say off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
            ],
        );
        refused("info,[x{=debug", expect!["`info,[x{=debug` cannot be read"]);
        refused(
            "",
            expect![
                "`` is no level; say off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"
            ],
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_level_lasts_as_long_as_it_is_told_to_and_then_the_configured_one_is_back() {
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
        assert_eq!(level.standing(), LevelStanding { level: "debug".into(), configured: "warn".into(), left });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(level.standing(), LevelStanding { level: "warn".into(), configured: "warn".into(), left: None });
        level.set("trace", None).unwrap();
        level.configure("error").unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(level.standing(), LevelStanding { level: "error".into(), configured: "error".into(), left: None });
        kept.abort();
        assert_eq!(applied.lock().unwrap().len(), 4, "{applied:?}");
    }
}
