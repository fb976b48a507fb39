use std::process::Stdio;

use programs::Program;

use crate::program;
use crate::server::{EngineServer, ServerProgram};

/// A broker that speaks Kafka's protocol and keeps its records in a file. It starts in half a second, so each test can
/// have its own.
pub type Kafka = EngineServer<Tansu>;

/// The program that [`Kafka`] runs.
#[derive(Debug, Default)]
pub struct Tansu {
    /// The `HOST:PORT` that clients learn from the broker, if it is not that of the broker.
    advertised: Option<String>,
    /// Whether clients authenticate themselves.
    requires_authentication: bool,
}

impl Kafka {
    /// A broker without topics.
    pub async fn start() -> Self {
        Self::start_engine(Tansu::default()).await
    }

    /// A broker behind a proxy at `HOST:PORT`. Clients learn that address from the broker.
    pub async fn start_behind(proxy: String) -> Self {
        Self::start_engine(Tansu { advertised: Some(proxy), ..Tansu::default() }).await
    }

    /// Restarts the broker, which from then on accepts only clients that authenticate themselves as one of these users,
    /// by SCRAM-SHA-512.
    ///
    /// # Panics
    /// If a user cannot be created.
    pub async fn require_users(&mut self, users: &[(&str, &str)]) {
        for (name, password) in users {
            let mut create = program::command(Program::Tansu);
            create.args(["user", "create", "--broker", &format!("tcp://{}", self.bootstrap()), name, password]);
            create.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let created = tokio::process::Command::from(create).output().await;
            let output = created.expect("a program that is there can be run");
            assert!(output.status.success(), "the user `{name}` cannot be created: {output:?}");
        }
        self.stop().await;
        self.engine.requires_authentication = true;
        self.start_again().await;
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
        let advertised =
            self.advertised.as_ref().map_or_else(|| url.clone(), |advertised| format!("tcp://{advertised}"));
        // The path is relative to the working directory, even if it begins with a slash.
        let usual = ["broker", "--listener-url", &url, "--advertised-listener-url", &advertised];
        let storage = ["--storage-engine", "sqlite://tansu.db"];
        let authentication = self.requires_authentication.then_some("--authentication");
        usual.into_iter().chain(storage).chain(authentication).map(str::to_owned).collect()
    }
}
