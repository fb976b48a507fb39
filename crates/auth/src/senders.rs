use async_trait::async_trait;
use domain::{PhoneNumber, Timestamp};
use ports::{OtpError, OtpSender};

/// Writes codes to the log, for whoever runs the server alone or tries it out: who reads the log can sign in as anyone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSender;

#[async_trait]
impl OtpSender for LogSender {
    async fn send(&self, phone_number: &PhoneNumber, code: &str, expires_at: Timestamp) -> Result<(), OtpError> {
        tracing::info!(?phone_number, code, %expires_at, "one-time code");
        Ok(())
    }
}

/// Sends nothing: with a fixed code everybody knows it already.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedSender;

#[async_trait]
impl OtpSender for FixedSender {
    async fn send(&self, _: &PhoneNumber, _: &str, _: Timestamp) -> Result<(), OtpError> {
        Ok(())
    }
}
