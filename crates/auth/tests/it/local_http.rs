use std::collections::VecDeque;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the server below does with a request.
pub(crate) enum Answer {
    Reply(u16, String),
    HangUp,
}

/// A request as it arrived; header names are in lower case.
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str()).expect(name)
    }
}

/// Answers one request per connection, then stops listening and gives back what was asked.
pub(crate) async fn serve(answers: impl Into<VecDeque<Answer>>) -> (String, JoinHandle<Vec<Request>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let answers = answers.into();
    let served = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            requests.push(read_request(&mut stream).await);
            if let Answer::Reply(status, body) = answer {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        }
        requests
    });
    (url, served)
}

async fn read_request(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Request {
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
    Request { line, headers, body: String::from_utf8(body).unwrap() }
}
