/// Declares a test for each of these rules, on a server of its own: a single process starts in a moment.
///
/// A rule is a function of the server. It makes its own users and chats, and asserts nothing about those of others,
/// because in a fleet all rules of a module have the same server.
///
/// Rules that need more than a server name what they run on: `rules!(on SERVER; RULE, ...)`.
macro_rules! rules {
    (on $server:expr; $($rule:ident),* $(,)?) => {
        mod rules {
            $(
                #[tokio::test]
                async fn $rule() {
                    super::$rule(&$server.await).await;
                }
            )*
        }
    };
    ($($rule:ident),* $(,)?) => {
        $crate::rules::rules!(on $crate::server::TestServer::start(); $($rule),*);
    };
}
pub(crate) use rules;
