use anyhow::{Context, bail};
use serde_json::{Value, json};
use server::tools::backup::{BYTES_ABOUT, Destination};

use super::AdminConnection;

impl AdminConnection {
    /// Requests a backup from the service, writes it, and reports written and total bytes.
    pub(crate) async fn backup(
        &self,
        rate_mib: u32,
        to: &mut Destination,
        progress: impl Fn(u64, u64),
    ) -> anyhow::Result<()> {
        let url = format!("{}/backup", self.base_url);
        let request = self.http.post(url).bearer_auth(self.token.expose()).json(&json!({ "rate_mib": rate_mib }));
        let unreachable = || format!("no service answers at {}; name its admin listener", self.base_url);
        let mut response = request.send().await.with_context(unreachable)?;
        if !response.status().is_success() {
            let (status, answer) = (response.status(), response.text().await?);
            let answer: Value = serde_json::from_str(&answer).unwrap_or(Value::Null);
            match answer["error"]["message"].as_str() {
                Some(message) => bail!("{message}"),
                None => bail!("the service answered {status}"),
            }
        }
        let about = response.headers().get(BYTES_ABOUT).and_then(|about| about.to_str().ok()?.parse().ok());
        while let Some(piece) =
            response.chunk().await.context("the service ended the backup early; its log has the reason")?
        {
            to.write(&piece)?;
            progress(to.written(), about.unwrap_or(0));
        }
        Ok(())
    }
}
