use programs::Program;

use crate::server::{EngineServer, ServerProgram};

/// A broker that speaks Kafka's protocol and keeps its records in a file. It starts in half a second, so each test can
/// have its own.
pub type Kafka = EngineServer<Tansu>;

/// The program that [`Kafka`] runs.
#[derive(Debug)]
pub struct Tansu;

impl Kafka {
    /// A broker without topics.
    pub async fn start() -> Self {
        Self::start_engine(Tansu).await
    }

    /// The bootstrap servers for clients.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }
}

impl ServerProgram for Tansu {
    const PROGRAM: Program = Program::Tansu;

    fn is_ready(line: &str) -> bool {
        // Match only the start of the line, because an error line may contain "already in use".
        line.starts_with("ready in")
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        let url = format!("tcp://127.0.0.1:{port}");
        // The path is relative to the working directory, even if it begins with a slash.
        ["broker", "--listener-url", &url, "--advertised-listener-url", &url, "--storage-engine", "sqlite://tansu.db"]
            .map(str::to_owned)
            .into()
    }
}
