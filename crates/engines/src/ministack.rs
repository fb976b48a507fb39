use programs::Program;

use crate::server::{EngineServer, ServerProgram};

/// A server that speaks DynamoDB's protocol, with point-in-time recovery and tags. It keeps its tables in memory, accepts
/// any credentials, and needs a region that looks like one. A restore copies the present items,
/// for any requested time.
pub type Ministack = EngineServer<MinistackServer>;

/// The program that [`Ministack`] runs.
#[derive(Debug)]
pub struct MinistackServer;

impl Ministack {
    /// A server without tables.
    pub async fn start() -> Self {
        Self::start_engine(MinistackServer).await
    }

    /// The endpoint URL for clients.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }
}

impl ServerProgram for MinistackServer {
    const PROGRAM: Program = Program::Ministack;

    fn is_ready(line: &str) -> bool {
        line.contains("Running on http://127.0.0.1:")
    }

    fn arguments(&self, _port: u16) -> Vec<String> {
        vec![]
    }

    fn environment(&self, port: u16) -> Vec<(&'static str, String)> {
        vec![("GATEWAY_PORT", port.to_string()), ("BIND_HOST", "127.0.0.1".to_owned())]
    }
}
