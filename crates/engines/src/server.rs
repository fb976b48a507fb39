use nix::sys::signal::Signal;
use tempfile::TempDir;
use xtask::Program;

use crate::port::Port;
use crate::process::{Process, Silence};
use crate::program;

/// How many ports are tried, should somebody else be quicker each time.
const STARTS_MAX: usize = 10;

/// What makes a [`Server`] the one it is.
pub trait Engine {
    /// What runs.
    const PROGRAM: Program;

    /// Whether this line of its log says that it accepts connections.
    fn is_ready(line: &str) -> bool;

    /// Has it serve on this port of this machine alone, and keep what it keeps in its working directory.
    fn arguments(&self, port: u16) -> Vec<String>;
}

/// One server, with a directory of its own. When this is dropped, it is killed and the directory removed.
#[derive(Debug)]
pub struct Server<E> {
    engine: E,
    // Before the directory, so that nobody writes there any more when it is removed.
    process: Option<Process>,
    directory: TempDir,
    port: Port,
}

impl<E: Engine> Server<E> {
    /// A server that is up.
    pub(crate) async fn start_engine(engine: E) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let mut server = Self { engine, process: None, directory, port: Port::claim() };
        for _ in 1..STARTS_MAX {
            match server.try_run().await {
                Ok(()) => return server,
                Err(Silence::Ended { log }) if log.contains("already in use") => server.port = Port::claim(),
                Err(silence) => server.fail(&silence),
            }
        }
        server.run().await;
        server
    }

    /// Ends the server without a chance to say goodbye. It keeps its port and its directory.
    pub async fn stop(&mut self) {
        self.process.take().expect("the server is up").kill().await;
    }

    /// Starts the server after a stop, where it was and with what it has kept.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "the server is up already");
        self.run().await;
    }

    /// Makes the server hang: its connections stay, and nothing is answered.
    pub fn pause(&self) {
        self.process().signal(Signal::SIGSTOP);
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.process().signal(Signal::SIGCONT);
    }

    /// Waits until the server has logged a line with this text since it was started.
    pub async fn says(&self, text: &str) {
        if let Err(silence) = self.process().says(|line| line.contains(text)).await {
            panic!("{} does not say `{text}`: it {silence}", E::PROGRAM.name());
        }
    }

    /// The port of 127.0.0.1 that it serves on, always the same.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    async fn run(&mut self) {
        if let Err(silence) = self.try_run().await {
            self.fail(&silence);
        }
    }

    async fn try_run(&mut self) -> Result<(), Silence> {
        let mut command = program::command(E::PROGRAM);
        command.args(self.engine.arguments(self.port())).current_dir(self.directory.path());
        let process = Process::start(command).await.expect("a program that is there can be started");
        process.says(E::is_ready).await?;
        self.process = Some(process);
        Ok(())
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("the server is up")
    }

    fn fail(&self, silence: &Silence) -> ! {
        panic!("{} does not start on port {}: it {silence}", E::PROGRAM.name(), self.port())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;

    use super::*;
    use crate::{Dynoxide, RedisServer, Tansu};

    /// An engine that comes late to its first two ports.
    struct Late<E> {
        engine: E,
        takers: Mutex<Vec<TcpListener>>,
    }

    impl<E: Engine> Engine for Late<E> {
        const PROGRAM: Program = E::PROGRAM;

        fn is_ready(line: &str) -> bool {
            E::is_ready(line)
        }

        fn arguments(&self, port: u16) -> Vec<String> {
            let mut takers = self.takers.lock().unwrap();
            if takers.len() < 2 {
                takers.push(TcpListener::bind(("127.0.0.1", port)).unwrap());
            }
            self.engine.arguments(port)
        }
    }

    async fn gets_another_port(engine: impl Engine) {
        let server = Server::start_engine(Late { engine, takers: Mutex::default() }).await;
        let takers = server.engine.takers.lock().unwrap();
        assert_eq!(takers.len(), 2);
        assert!(takers.iter().all(|taker| taker.local_addr().unwrap().port() != server.port()));
        TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    }

    #[tokio::test]
    async fn a_redis_that_lost_its_port_gets_another() {
        gets_another_port(RedisServer { settings: vec![] }).await;
    }

    #[tokio::test]
    async fn a_kafka_that_lost_its_port_gets_another() {
        gets_another_port(Tansu).await;
    }

    #[tokio::test]
    async fn a_dynamodb_that_lost_its_port_gets_another() {
        gets_another_port(Dynoxide).await;
    }
}
