use programs::Program;

use crate::server::{EngineServer, ServerProgram};

/// A server that speaks DynamoDB's protocol and keeps its tables in a file. It accepts any region and any credentials.
pub type Dynamo = EngineServer<Dynoxide>;

/// The program that [`Dynamo`] runs.
#[derive(Debug)]
pub struct Dynoxide;

impl Dynamo {
    /// A server without tables.
    pub async fn start() -> Self {
        Self::start_engine(Dynoxide).await
    }

    /// The endpoint URL for clients.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }
}

impl ServerProgram for Dynoxide {
    const PROGRAM: Program = Program::Dynoxide;

    fn is_ready(line: &str) -> bool {
        line.starts_with("Dynoxide listening on")
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        ["--port", &port.to_string(), "--db-path", "dynoxide.db"].map(str::to_owned).into()
    }
}
