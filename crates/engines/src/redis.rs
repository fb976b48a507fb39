use programs::Program;

use crate::server::{EngineServer, ServerProgram};

/// A Redis that keeps nothing on disk.
pub type Redis = EngineServer<RedisServer>;

/// The program that [`Redis`] runs.
#[derive(Debug)]
pub struct RedisServer {
    pub(crate) settings: Vec<String>,
}

impl Redis {
    /// A server without keys.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A server with these command-line settings in addition to the defaults.
    pub async fn start_with(settings: &[&str]) -> Self {
        let settings = settings.iter().copied().map(str::to_owned).collect();
        Self::start_engine(RedisServer { settings }).await
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }
}

impl ServerProgram for RedisServer {
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
