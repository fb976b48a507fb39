use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::target::host_and_port;

/// A Redis that is asked how much it has done. One of a cluster knows of its own part only.
pub(super) struct RedisInfo {
    stream: BufReader<TcpStream>,
}

/// What Redis says of itself at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) at: Instant,
    /// Commands it has done since its start, those inside of scripts among them.
    pub(super) commands: u64,
    pub(super) memory_bytes: u64,
    pub(super) keys: u64,
}

impl RedisInfo {
    const PORT: u16 = 6379;
    const PATIENCE: Duration = Duration::from_secs(5);
    /// An answer is some kilobytes long.
    const ANSWER_BYTES_MAX: usize = 1 << 20;
    const LINE_BYTES_MAX: u64 = 512;

    /// Connects to the Redis at `url`, which must be on this machine unless `allow_remote`.
    pub(super) async fn connect(url: &str, allow_remote: bool) -> anyhow::Result<Self> {
        ensure!(
            url.starts_with("redis://") && !url.contains('@'),
            "--redis takes redis://HOST:PORT, without TLS, user and password"
        );
        let (host, port) = host_and_port(url, allow_remote)?;
        let connecting = timeout(Self::PATIENCE, TcpStream::connect((host, port.unwrap_or(Self::PORT))));
        let stream = connecting.await?.with_context(|| format!("no Redis is at `{url}`"))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks for the counts. It is one command, which the counts after these have in them.
    pub(super) async fn counts(&mut self) -> anyhow::Result<Counts> {
        let info = timeout(Self::PATIENCE, self.info()).await.context("Redis does not answer")??;
        Counts::read(&info, Instant::now()).context("the answer of Redis to INFO lacks a count")
    }

    async fn info(&mut self) -> anyhow::Result<String> {
        self.stream.write_all(b"INFO\r\n").await?;
        let mut head = String::new();
        (&mut self.stream).take(Self::LINE_BYTES_MAX).read_line(&mut head).await?;
        let length = head.trim_end().strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
        let length = length.filter(|length| *length <= Self::ANSWER_BYTES_MAX);
        let length = length.with_context(|| format!("the answer of Redis to INFO is {head:?}"))?;
        // A line end follows.
        let mut text = vec![0; length + 2];
        self.stream.read_exact(&mut text).await?;
        Ok(String::from_utf8(text)?)
    }
}

impl Counts {
    fn read(info: &str, at: Instant) -> Option<Self> {
        let count = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim_end().parse().ok());
        // A database without keys has no line.
        let databases = info.lines().filter_map(|line| line.strip_prefix("db")?.split_once(":keys="));
        let keys = databases.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok()).sum();
        let (commands, memory_bytes) = (count("total_commands_processed:")?, count("used_memory:")?);
        Some(Self { at, commands, memory_bytes, keys })
    }

    /// The commands of others since then: the question behind `earlier` is ours.
    pub(super) fn commands_since(&self, earlier: &Self) -> u64 {
        self.commands.saturating_sub(earlier.commands + 1)
    }

    /// The commands of others in a second since then.
    pub(super) fn commands_per_second_since(&self, earlier: &Self) -> f64 {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        self.commands_since(earlier) as f64 / seconds.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\n\r\n# Stats\r\n\
        total_connections_received:7\r\ntotal_commands_processed:120\r\n\r\n# Keyspace\r\n\
        db0:keys=12,expires=3,avg_ttl=0,subexpiry=0\r\ndb7:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\n\r\n";

    #[test]
    fn counts_are_read_from_an_answer_to_info() {
        let at = Instant::now();
        let expected = Counts { at, commands: 120, memory_bytes: 1 << 20, keys: 13 };
        assert_eq!(Counts::read(INFO, at), Some(expected));
        let empty = INFO.split_once("db0").unwrap().0;
        assert_eq!(Counts::read(empty, at), Some(Counts { keys: 0, ..expected }));
        for lacking in ["", "used_memory:1\r\n", "used_memory:1\r\ntotal_commands_processed:many\r\n"] {
            assert_eq!(Counts::read(lacking, at), None, "{lacking:?}");
        }
    }

    #[test]
    fn the_question_itself_is_not_counted() {
        let earlier = Counts { at: Instant::now(), commands: 100, memory_bytes: 0, keys: 0 };
        let later = Counts { at: earlier.at + Duration::from_secs(4), commands: 121, ..earlier };
        assert_eq!((later.commands_since(&earlier), later.commands_per_second_since(&earlier)), (20, 5.0));
    }
}
