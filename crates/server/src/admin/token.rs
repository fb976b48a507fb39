use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;
use keyfile::{KeyFile, KeyFileError, Keys};
use protocol::ErrorCode;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::AdminError;

/// The bearer token of operators, in the file `admin.json` of a data directory. Read access to the file grants operator
/// access.
#[derive(Serialize, Deserialize)]
pub struct AdminToken {
    token: String,
}

impl Keys for AdminToken {
    const FILE: &'static str = "admin.json";
    const VERSION: u32 = 1;
    const LOSS: &'static str = "every copy of the old token has to be replaced";
}

impl AdminToken {
    /// Reads the token of a data directory, or creates one. Blocks on the disk.
    pub(crate) fn open(directory: &Path) -> Result<Self, KeyFileError> {
        let file = KeyFile::<Self>::new(directory);
        match file.read()? {
            Some(token) => Ok(token),
            None => {
                let random: [u8; 32] = rand::random();
                let token = Self { token: random.iter().map(|byte| format!("{byte:02x}")).collect() };
                file.write(&token)?;
                Ok(token)
            }
        }
    }

    /// Reads the token of a data directory, if a service has created one. Blocks on the disk.
    pub fn read(directory: &Path) -> Result<Option<Self>, KeyFileError> {
        KeyFile::new(directory).read()
    }

    pub fn expose(&self) -> &str {
        &self.token
    }
}

/// Requires the token in each request.
pub(super) async fn require(
    State(admin): State<AdminState>,
    request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let presented = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let expected = admin.token.expose().as_bytes();
    match presented.map(|presented| verify_slices_are_equal(presented.as_bytes(), expected)) {
        Some(Ok(())) => Ok(next.run(request).await),
        _ => Err(AdminError::new(
            ErrorCode::Unauthorized,
            "the request has no `Authorization: Bearer` with the token of `admin.json` in the data directory",
        )),
    }
}
