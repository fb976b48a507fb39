use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// Declares one test of all these rules, one after the other on the same fleet: a fleet takes seconds to start. The
/// test tries every rule, and names those that were broken.
macro_rules! rules {
    (on $server:expr; $($rule:ident),* $(,)?) => {
        #[tokio::test]
        async fn rules() {
            let server = $server.await;
            let mut tried = $crate::rules::TriedRules::default();
            $(tried.check(stringify!($rule), Box::pin($rule(&server))).await;)*
            tried.end();
        }
    };
    ($($rule:ident),* $(,)?) => {
        $crate::rules::rules!(on $crate::server::TestServer::start(); $($rule),*);
    };
}
pub(crate) use rules;

/// The outcomes of rules that share a fleet.
#[derive(Default)]
pub(crate) struct TriedRules {
    broken: Vec<&'static str>,
}

impl TriedRules {
    /// Runs one rule. Its panic ends only this rule.
    pub(crate) async fn check(&mut self, rule: &'static str, run: impl Future<Output = ()>) {
        eprintln!("rule {rule}");
        if AssertUnwindSafe(run).catch_unwind().await.is_err() {
            self.broken.push(rule);
        }
    }

    /// # Panics
    /// If a rule was broken.
    pub(crate) fn end(self) {
        assert!(self.broken.is_empty(), "broken rules: {}", self.broken.join(", "));
    }
}
