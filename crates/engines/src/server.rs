use nix::sys::signal::Signal;
use programs::Program;
use tempfile::TempDir;

use crate::port::ClaimedPort;
use crate::process::{ServerProcess, Silence};
use crate::program;

/// Most ports to try, if another process takes each one first.
const STARTS_MAX: usize = 10;

/// The parts of an [`EngineServer`] that are specific to one program.
pub trait ServerProgram {
    /// The program to run.
    const PROGRAM: Program;

    /// Whether this log line shows that the server accepts connections.
    fn is_ready(line: &str) -> bool;

    /// Arguments that make it listen on this port of the loopback interface and keep its data in the working directory.
    fn arguments(&self, port: u16) -> Vec<String>;

    /// Environment variables with the same effect, for a program that has no such arguments.
    fn environment(&self, _port: u16) -> Vec<(&'static str, String)> {
        vec![]
    }
}

/// One server, with a directory of its own. Dropping it kills the process and removes the directory.
#[derive(Debug)]
pub struct EngineServer<E> {
    pub(crate) engine: E,
    // Declared before the directory, so that the process has stopped writing when the directory is removed.
    process: Option<ServerProcess>,
    directory: TempDir,
    port: ClaimedPort,
}

impl<E: ServerProgram> EngineServer<E> {
    /// Starts a server and waits until it is ready.
    pub(crate) async fn start_engine(engine: E) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let mut server = Self { engine, process: None, directory, port: ClaimedPort::claim() };
        for _ in 1..STARTS_MAX {
            match server.try_run().await {
                Ok(()) => return server,
                Err(Silence::Ended { log }) if log.contains("already in use") => server.port = ClaimedPort::claim(),
                Err(silence) => server.fail(&silence),
            }
        }
        server.run().await;
        server
    }

    /// Kills the server without a graceful shutdown. It keeps its port and its directory.
    pub async fn stop(&mut self) {
        self.process.take().expect("the server is up").kill().await;
    }

    /// Restarts the server after a stop, on the same port and with the same directory.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "the server is up already");
        self.run().await;
    }

    /// Pauses the server: its connections stay open, and it answers nothing.
    pub fn pause(&self) {
        self.process().signal(Signal::SIGSTOP);
    }

    /// Resumes a paused server.
    pub fn resume(&self) {
        self.process().signal(Signal::SIGCONT);
    }

    /// Waits until the server has logged a line with this text since it was started.
    pub async fn says(&self, text: &str) {
        if let Err(silence) = self.process().says(|line| line.contains(text)).await {
            panic!("{} does not say `{text}`: it {silence}", E::PROGRAM.name());
        }
    }

    /// The port of 127.0.0.1 that it listens on; a restart does not change it.
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
        command.args(self.engine.arguments(self.port())).envs(self.engine.environment(self.port()));
        command.current_dir(self.directory.path());
        let process = ServerProcess::start(command).await.expect("a program that is there can be started");
        process.says(E::is_ready).await?;
        self.process = Some(process);
        Ok(())
    }

    fn process(&self) -> &ServerProcess {
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
    use crate::{Dynoxide, MinistackServer, RedisServer, Tansu};

    /// An engine whose first two ports are taken by another listener.
    struct Late<E> {
        engine: E,
        takers: Mutex<Vec<TcpListener>>,
    }

    impl<E: ServerProgram> ServerProgram for Late<E> {
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

        fn environment(&self, port: u16) -> Vec<(&'static str, String)> {
            self.engine.environment(port)
        }
    }

    async fn gets_another_port(engine: impl ServerProgram) {
        let server = EngineServer::start_engine(Late { engine, takers: Mutex::default() }).await;
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
        gets_another_port(Tansu::default()).await;
    }

    #[tokio::test]
    async fn a_dynamodb_that_lost_its_port_gets_another() {
        gets_another_port(Dynoxide).await;
    }

    #[tokio::test]
    async fn a_ministack_that_lost_its_port_gets_another() {
        gets_another_port(MinistackServer).await;
    }
}
