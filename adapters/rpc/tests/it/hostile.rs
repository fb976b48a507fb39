use domain::{ChatId, Sequence, UserId};
use ports::{PeerProcess, ProcessRole, Signal, SignalSender};
use tidings_rpc::RemoteSignals;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::world::{CallingProcess, FleetProcess, World, request, soon};

/// Calls a method with a message that has these bytes as its first field, which is how a bare byte vector is encoded.
async fn call(process: &FleetProcess, method: &'static str, first_field: Vec<u8>) -> Status {
    let channel = Channel::from_shared(format!("http://{}", process.peer.address)).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let mut request = Request::new(first_field);
    request.metadata_mut().insert_bin("tidings-secret-bin", MetadataValue::from_bytes(b"the secret of the fleet"));
    let codec = ProstCodec::<Vec<u8>, Vec<u8>>::default();
    soon(client.unary(request, PathAndQuery::from_static(method), codec)).await.unwrap_err()
}

#[tokio::test]
async fn requests_that_are_too_long_or_no_values_of_ours_are_refused_and_named() {
    let world = World::new();
    let (process, _tap) = world.ingest("a");
    let sync = "/tidings.fleet.v1.Ingest/Sync";
    let too_long = call(&process, sync, vec![0; 256 * 1024 + 1]).await;
    assert_eq!(too_long.code(), Code::OutOfRange, "{too_long:?}");
    let no_id = call(&process, sync, vec![0; 15]).await;
    assert_eq!((no_id.code(), no_id.message()), (Code::InvalidArgument, "`user_id` has 15 bytes, an id has 16"));
    let incomplete = call(&process, "/tidings.fleet.v1.Ingest/Advance", vec![0; 16]).await;
    assert_eq!((incomplete.code(), incomplete.message()), (Code::InvalidArgument, "`kind` is missing"));
}

#[tokio::test]
async fn routes_of_other_roles_do_not_exist() {
    let world = World::new();
    let (process, _tap) = world.ingest("a");
    let unknown = call(&process, "/tidings.fleet.v1.Identity/Live", vec![]).await;
    assert_eq!(unknown.code(), Code::Unimplemented);
}

#[tokio::test]
async fn malformed_calls_affect_no_other_caller() {
    let world = World::new();
    let (process, _tap) = world.ingest("a");
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat = world.group(user).await;
    for rubbish in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 100_000], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x01"] {
        let mut socket = TcpStream::connect(&*process.peer.address).await.unwrap();
        // The process may close the connection before it has read everything.
        drop(socket.write_all(rubbish).await);
        drop(socket.shutdown().await);
        let mut answer = vec![];
        drop(soon(socket.read_to_end(&mut answer)).await);
        soon(caller.send(request(chat, user, "hi"))).await.unwrap();
    }
    assert_eq!(soon(caller.send(request(chat, user, "hi"))).await.unwrap().receipt.sequence, Sequence(4));
}

#[tokio::test]
async fn a_process_that_speaks_something_else_is_an_error_and_not_a_hang() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let rubbish = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            drop(socket.write_all(&[0x42; 10_000]).await);
        }
    });
    let peer = PeerProcess { id: "odd".into(), address: address.into() };
    world.list.add(ProcessRole::Fanout, &peer);
    let caller = CallingProcess::start(&world).await;
    let signals = RemoteSignals::new(caller.directory.clone());
    let typing =
        Signal::Typing { chat_id: ChatId::from_bytes([1; 16]), user_id: UserId::from_bytes([2; 16]), is_typing: true };
    assert!(soon(signals.signal(typing)).await.is_err());
    rubbish.abort();
}
