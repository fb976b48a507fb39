/// Declares a test for each of these rules, on a server of its own: a single process starts in a moment.
///
/// A rule is a function of the server. It makes its own users and chats, and asserts nothing about those of others,
/// because in a fleet all rules of a module have the same server.
macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        mod rules {
            $(
                #[tokio::test]
                async fn $rule() {
                    super::$rule(&$crate::server::TestServer::start().await).await;
                }
            )*
        }
    };
}
pub(crate) use rules;
