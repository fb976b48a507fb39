use crate::server::TestServer;

#[tokio::test]
async fn g1_what_was_acknowledged_survives_a_kill() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    for n in 1..=5 {
        ann.connect().await.send_message(&chat_id, &n.to_string()).await;
        server.kill().await;
        server.restart().await;
        let messages = bob.connect().await.sync_all(&chat_id).await;
        let contents: Vec<_> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(contents, (1..=n).map(|n| n.to_string()).collect::<Vec<_>>());
    }
}
