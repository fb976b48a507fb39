use xtask::Program;

use crate::server::{Engine, Server};

/// A broker that speaks Kafka's protocol and keeps its records in a file. Up in half a second, so a test has its own.
pub type Kafka = Server<Tansu>;

/// The program behind [`Kafka`].
#[derive(Debug)]
pub struct Tansu;

impl Kafka {
    /// A broker without topics.
    pub async fn start() -> Self {
        Self::start_engine(Tansu).await
    }

    /// What a client takes as its bootstrap servers.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }
}

impl Engine for Tansu {
    const PROGRAM: Program = Program::Tansu;

    fn is_ready(line: &str) -> bool {
        // Not anywhere in the line, because a port may be "already in use".
        line.starts_with("ready in")
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        let url = format!("tcp://127.0.0.1:{port}");
        // The path is taken from the working directory on, whether it begins with a slash or not.
        ["broker", "--listener-url", &url, "--advertised-listener-url", &url, "--storage-engine", "sqlite://tansu.db"]
            .map(str::to_owned)
            .into()
    }
}
