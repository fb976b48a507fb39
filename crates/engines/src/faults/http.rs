use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Most bytes in the head of a request or response.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most bytes in a body: the real service accepts 16 MB.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One complete HTTP/1.1 request or response.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Whole {
    /// A response with a JSON body.
    pub(super) fn answer(status: &str, body: &str) -> Self {
        let headers = format!("content-type: application/x-amz-json-1.0\r\ncontent-length: {}", body.len());
        Self { head: format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n"), body: body.as_bytes().to_vec() }
    }

    /// An error of the service, which has no effect. `more` continues the JSON object.
    pub(super) fn refusal(status: &str, name: &str, more: &str) -> Self {
        let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{name}","message":"a fault"{more}}}"#);
        Self::answer(status, &body)
    }

    /// The same message with another body. A checksum of the old body is removed.
    pub(super) fn with_body(&self, body: &Value) -> Self {
        let body = body.to_string().into_bytes();
        let is_kept = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default();
            !["content-length", "x-amz-crc32"].iter().any(|of| name.eq_ignore_ascii_case(of))
        };
        let lines: Vec<&str> = self.head.trim_end().lines().filter(is_kept).collect();
        let head = format!("{}\r\ncontent-length: {}\r\n\r\n", lines.join("\r\n"), body.len());
        Self { head, body }
    }

    /// The body as JSON; null if it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether the response reports success.
    pub(super) fn is_ok(&self) -> bool {
        self.head.split(' ').nth(1) == Some("200")
    }

    /// Reads the next message of a connection; `None` if the peer closed it between messages.
    pub(super) async fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let left = (HEAD_BYTES_MAX - head.len()) as u64;
            if (&mut *from).take(left).read_line(&mut head).await? == 0 {
                return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
        let len = header(&head, "content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
        if len > BODY_BYTES_MAX {
            return Err(io::Error::other(format!("a body of {len} bytes, limit is {BODY_BYTES_MAX}")));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body).await?;
        Ok(Some(Self { head, body }))
    }

    /// Writes head and body in one write: with two small writes, the second would wait for the peer's acknowledgement.
    pub(super) async fn write(&self, to: &mut BufReader<TcpStream>) -> io::Result<()> {
        to.write_all(&[self.head.as_bytes(), &self.body].concat()).await
    }

    /// The operation that a request names.
    pub(super) fn operation(&self) -> &str {
        header(&self.head, "x-amz-target").and_then(|target| target.split('.').nth(1)).unwrap_or_default()
    }

    pub(super) fn is_transaction(&self) -> bool {
        self.operation() == "TransactWriteItems"
    }

    /// Counts the occurrences of these bytes in the body.
    pub(super) fn count(&self, bytes: &[u8]) -> usize {
        self.body.windows(bytes.len()).filter(|window| *window == bytes).count()
    }
}

pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.into_iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
