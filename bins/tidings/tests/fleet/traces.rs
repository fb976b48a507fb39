use crate::collector::{SpanStep, TestCollector};
use crate::server::TestServer;
use crate::traced::{connect_traced, span_id, trace_id};

#[tokio::test]
async fn a_send_is_one_trace_through_all_processes() {
    let collector = TestCollector::start().await;
    let server = TestServer::start_with(&[
        ("TIDINGS_TELEMETRY__OTLP_ENDPOINT", &collector.url()),
        ("TIDINGS_TELEMETRY__TRACE_RATIO", "0"),
    ])
    .await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut bobs = bob.connect().await;
    let mut anns = connect_traced(&ann).await;
    anns.send_message(&chat_id, "hush").await;
    bobs.next_of("message").await;
    let step = |roles: &str, name: &str| SpanStep { roles: roles.to_owned(), name: name.to_owned() };
    assert_eq!(
        collector.way_to("push", trace_id(), span_id()).await,
        [
            step("gateway", "send_message"),
            step("gateway", "rpc"),
            step("ingest", "ingest"),
            step("ingest", "commit"),
            step("ingest", "publish"),
            step("fanout", "fanout"),
            step("gateway", "push"),
        ]
    );
    // The gateway asks another process for the session of the token.
    assert_eq!(
        collector.way_to("answer", trace_id(), span_id()).await,
        [step("gateway", "handshake"), step("gateway", "rpc"), step("api", "answer")]
    );
}
