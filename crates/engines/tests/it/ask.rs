//! A minimal client of each engine's protocol, enough to check that the engine answers and keeps its data.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Redis' response to a command and to the `QUIT` after it, line by line.
pub(crate) fn redis(port: u16, command: &str) -> io::Result<Vec<String>> {
    let mut stream = connect(port)?;
    write!(stream, "{command}\r\nQUIT\r\n")?;
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    Ok(answers.lines().map(str::to_owned).collect())
}

/// The response of DynamoDB to `ListTables`.
pub(crate) fn dynamodb_tables(port: u16) -> io::Result<String> {
    dynamodb(port, "ListTables", "{}")
}

/// Creates a table in DynamoDB.
pub(crate) fn dynamodb_make_table(port: u16, name: &str) -> io::Result<()> {
    let table = format!(
        r#"{{"TableName": "{name}", "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{{"AttributeName": "id", "AttributeType": "S"}}],
        "KeySchema": [{{"AttributeName": "id", "KeyType": "HASH"}}]}}"#
    );
    dynamodb(port, "CreateTable", &table).map(drop)
}

/// DynamoDB's response to a request. The signature must be present but is not verified.
fn dynamodb(port: u16, operation: &str, body: &str) -> io::Result<String> {
    let mut stream = connect(port)?;
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nX-Amz-Date: 20260101T000000Z\r\n\
         X-Amz-Target: DynamoDB_20120810.{operation}\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential=local/20260101/local/dynamodb/aws4_request, SignedHeaders=host, Signature=none\r\n\
         Content-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or(answer))
}

/// The metadata response of a Kafka broker: bytes that contain host and topic names in plain text.
pub(crate) fn kafka_metadata(port: u16) -> io::Result<String> {
    const METADATA: i16 = 3;
    const ALL_TOPICS: i32 = -1;
    kafka(port, METADATA, 1, &ALL_TOPICS.to_be_bytes())
}

/// Creates a topic of one partition.
pub(crate) fn kafka_make_topic(port: u16, name: &str) -> io::Result<()> {
    const CREATE_TOPICS: i16 = 19;
    let name_len = i16::try_from(name.len()).map_err(io::Error::other)?;
    let mut request = vec![];
    request.extend(1i32.to_be_bytes());
    request.extend(name_len.to_be_bytes());
    request.extend(name.as_bytes());
    request.extend(1i32.to_be_bytes());
    request.extend(1i16.to_be_bytes());
    // No assignments, no settings, a timeout of ten seconds.
    request.extend([0i32, 0, 10_000].map(i32::to_be_bytes).concat());
    // `validate_only` is false.
    request.push(0);
    kafka(port, CREATE_TOPICS, 2, &request).map(drop)
}

/// A Kafka broker's response to a request.
fn kafka(port: u16, api: i16, version: i16, body: &[u8]) -> io::Result<String> {
    const CORRELATION: i32 = 7;
    const NO_CLIENT_ID: i16 = -1;
    let mut request = vec![];
    request.extend([api, version].map(i16::to_be_bytes).concat());
    request.extend(CORRELATION.to_be_bytes());
    request.extend(NO_CLIENT_ID.to_be_bytes());
    request.extend(body);
    let request_len = i32::try_from(request.len()).map_err(io::Error::other)?;
    let mut stream = connect(port)?;
    stream.write_all(&request_len.to_be_bytes())?;
    stream.write_all(&request)?;
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut answer = vec![];
    stream.take(u32::from_be_bytes(head).into()).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
