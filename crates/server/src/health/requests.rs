use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;

use super::RemainingWork;

/// The requests in progress.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<AtomicUsize>);

impl Requests {
    /// Counts the requests of these routes, except health checks, which would otherwise count themselves.
    pub(crate) fn counted(self, app: Router) -> Router {
        app.layer(from_fn_with_state(self, count))
    }

    pub(crate) fn left(&self) -> RemainingWork {
        let requests = self.clone();
        ("requests", Arc::new(move || requests.0.load(Ordering::Relaxed)))
    }
}

/// One request in progress, whether it completes or is cancelled.
struct UnderWay(Requests);

impl UnderWay {
    fn new(requests: Requests) -> Self {
        requests.0.fetch_add(1, Ordering::Relaxed);
        Self(requests)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn count(State(requests): State<Requests>, request: Request, next: Next) -> Response {
    let is_counted = !matches!(request.uri().path(), "/healthz" | "/readyz");
    let _under_way = is_counted.then(|| UnderWay::new(requests));
    next.run(request).await
}
