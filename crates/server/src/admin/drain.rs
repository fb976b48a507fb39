use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::AdminState;

/// The remaining work of a drain.
pub(super) async fn standing(State(admin): State<AdminState>) -> Json<Value> {
    let mut standing = admin.drain.standing();
    standing.insert("draining".to_owned(), admin.drain.is_draining().into());
    standing.insert("node".to_owned(), json!(*admin.node.id));
    Json(Value::Object(standing))
}

/// Drains this process: it reports itself not ready, its clients reconnect elsewhere, and its peers stop calling it.
pub(super) async fn begin(admin: State<AdminState>) -> Json<Value> {
    admin.drain.begin();
    standing(admin).await
}

/// Cancels the drain of this process.
pub(super) async fn end(admin: State<AdminState>) -> Json<Value> {
    admin.drain.end();
    standing(admin).await
}
