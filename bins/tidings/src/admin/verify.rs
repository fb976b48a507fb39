use anyhow::{Context, bail};
use reqwest::Response;
use serde_json::Value;
use server::tools::verify::{Findings, Verified};

use super::AdminConnection;

/// Maximum length of one line of the response, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

impl AdminConnection {
    /// Requests a check of the store, including file checksums if a rate in MiB is given, and reports progress.
    pub(crate) async fn verify(
        &self,
        rate: Option<u32>,
        rate_mib: Option<u32>,
        progress: impl Fn(&str, u64, u64),
    ) -> anyhow::Result<Verified> {
        let deep = rate_mib.map(|rate_mib| format!("&deep=true&rate_mib={rate_mib}")).unwrap_or_default();
        let rate = rate.map(|rate| format!("&rate={rate}")).unwrap_or_default();
        let url = format!("{}/verify?{rate}{deep}", self.base_url);
        let unreachable = || format!("no service answers at {}; name its admin listener", self.base_url);
        let request = self.http.get(url).bearer_auth(self.token.expose());
        let response = request.send().await.with_context(unreachable)?;
        if !response.status().is_success() {
            let (status, answer) = (response.status(), response.text().await?);
            let answer: Value = serde_json::from_str(&answer).unwrap_or(Value::Null);
            match answer["error"]["message"].as_str() {
                Some(message) => bail!("{message}"),
                None => bail!("the service answered {status}"),
            }
        }
        let mut lines = ResponseLines { response, read: vec![] };
        while let Some(mut line) = lines.next().await? {
            if let Some(error) = line["error"].as_str() {
                bail!("{error}");
            }
            if line["report"].is_object() {
                let verified: Verified = serde_json::from_value(line["report"].take())?;
                // A service of a later version may check invariants that this version has no name for.
                Findings::try_from(verified.report.clone())?;
                if rate_mib.is_some() && verified.files.is_none() {
                    bail!("the service is of an earlier version and does not check files; leave --deep out");
                }
                return Ok(verified);
            }
            let at = &line["progress"];
            let number = |name: &str| at[name].as_u64().unwrap_or(0);
            progress(at["stage"].as_str().unwrap_or_default(), number("read"), number("all"));
        }
        bail!("the service ended the response before the check was complete")
    }
}

/// The lines of a response, each a JSON value.
struct ResponseLines {
    response: Response,
    read: Vec<u8>,
}

impl ResponseLines {
    async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.read.len() > LINE_BYTES_MAX {
                bail!("the service answers with a line of more than {LINE_BYTES_MAX} bytes");
            }
            match self.response.chunk().await.context("the service has gone")? {
                Some(bytes) => self.read.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}
