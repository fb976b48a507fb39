use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::Admin;

/// What a drain has left to do.
pub(super) async fn standing(State(admin): State<Admin>) -> Json<Value> {
    let mut standing = admin.drain.standing();
    standing.insert("draining".to_owned(), admin.drain.is_draining().into());
    standing.insert("node".to_owned(), json!(*admin.node.id));
    Json(Value::Object(standing))
}

/// Drains this process: it is not ready, its clients go elsewhere, and the others of a fleet call it no more.
pub(super) async fn begin(admin: State<Admin>) -> Json<Value> {
    admin.drain.begin();
    standing(admin).await
}

/// Has this process go on as before.
pub(super) async fn end(admin: State<Admin>) -> Json<Value> {
    admin.drain.end();
    standing(admin).await
}
