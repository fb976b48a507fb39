use std::collections::VecDeque;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The answer of the test server to a request.
pub(crate) enum StubReply {
    Respond(u16, String),
    HangUp,
}

/// A received request; header names are in lower case.
pub(crate) struct StubRequest {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl StubRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str()).expect(name)
    }
}

/// Answers one request per connection, then stops listening and returns the requests.
pub(crate) async fn serve(answers: impl Into<VecDeque<StubReply>>) -> (String, JoinHandle<Vec<StubRequest>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let answers = answers.into();
    let served = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            requests.push(serve_one(&listener, &answer).await);
        }
        requests
    });
    (url, served)
}

/// Answers one request and returns it.
pub(crate) async fn serve_one(listener: &TcpListener, answer: &StubReply) -> StubRequest {
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = BufReader::new(stream);
    let request = read_request(&mut stream).await;
    if let StubReply::Respond(status, body) = answer {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
    request
}

async fn read_request(stream: &mut (impl AsyncBufReadExt + Unpin)) -> StubRequest {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.remove(0);
    let headers: Vec<(String, String)> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    StubRequest { line, headers, body: String::from_utf8(body).unwrap() }
}
