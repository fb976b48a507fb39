use xtask::Program;

use crate::server::{Engine, Server};

/// A Redis that keeps nothing on disk.
pub type Redis = Server<RedisServer>;

/// The program behind [`Redis`].
#[derive(Debug)]
pub struct RedisServer {
    pub(crate) settings: Vec<String>,
}

impl Redis {
    /// A server without keys.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A server with these settings besides the usual ones, as they stand on a command line.
    pub async fn start_with(settings: &[&str]) -> Self {
        let settings = settings.iter().copied().map(str::to_owned).collect();
        Self::start_engine(RedisServer { settings }).await
    }

    /// Where a client finds it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }
}

impl Engine for RedisServer {
    const PROGRAM: Program = Program::RedisServer;

    fn is_ready(line: &str) -> bool {
        line.contains("Ready to accept connections")
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        let port = port.to_string();
        let usual = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        usual.map(str::to_owned).into_iter().chain(self.settings.iter().cloned()).collect()
    }
}
