use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use auth::KeyRing;
use axum::extract::Request;
use axum::serve::ListenerExt;
use axum::{Router, ServiceExt};
use ports::{Clock, SystemClock};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::admin;
use crate::compose::{Service, compose};
use crate::config::Config;
use crate::cors;

/// How long a drain may take before what is left is cut off; a whole shutdown takes at most 10 s.
const DRAIN_MAX: Duration = Duration::from_secs(8);
/// Connections that may wait to be accepted. When all clients of a server come back at once, those beyond it are not
/// refused but try again a second later.
const BACKLOG: u32 = 4096;
/// How often the age of the signing key is looked at.
const KEY_CHECK: Duration = Duration::from_secs(3600);

/// Runs the service until `shutdown` is ready, then drains it: no new connections, clients told, everything under way
/// answered, everything committed brought where it belongs.
///
/// One line on standard output says where it listens, once it is ready to serve.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let metrics = admin::install_metrics()?;
    // Bound first: with an address in use the data directory stays untouched.
    let public = bind("listen", config.listen)?;
    let private = bind("admin.listen", config.admin.listen)?;
    let (stop, stopped) = watch::channel(false);
    let Service { app, admin, hub, keys, draining, mut listeners, mut lanes, mut background, mut engine } =
        compose(&config, stopped.clone()).await?;
    if let Some(keys) = keys {
        background.spawn(rotate_keys(keys));
    }
    let public_address = public.local_addr()?;
    let admin_address = private.local_addr()?;
    listeners.spawn(serve(public, cors::allow(app, &config), stopped.clone()));
    let (pulse, measured) = (admin.pulse.clone(), metrics.clone());
    background.spawn(async move { pulse.run(measured).await });
    listeners.spawn(serve(private, admin::router(admin, metrics), stopped));
    if config.dev {
        warn!("--dev: anybody can sign in with the code 000000; never let others reach this process");
    }
    info!(%public_address, %admin_address, data_dir = %config.data_dir.display(), "ready");
    writeln!(std::io::stdout(), "listening on http://{public_address}").context("cannot write to standard output")?;

    // These go on for ever. One that ends has failed in a way nobody foresaw, and a process that is started anew is better
    // than one that lives on without it.
    tokio::select! {
        () = shutdown => info!("draining"),
        Some(end) = background.join_next() => bail!("a task of the service has ended: {end:?}"),
        Some(end) = lanes.join_next() => bail!("a lane of ingest has ended: {end:?}"),
        Some(end) = listeners.join_next() => bail!("a listener has ended: {end:?}"),
        failure = engine.failed() => return Err(failure),
    }
    draining.store(true, Ordering::Relaxed);
    stop.send_replace(true);
    let drained = async {
        engine.leave().await;
        if let Some(hub) = hub {
            hub.drain().await;
        }
        while listeners.join_next().await.is_some() {}
        background.shutdown().await;
        // Everything that could send is gone now, and the lanes end when their queues are empty.
        while lanes.join_next().await.is_some() {}
    };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        warn!("the drain took too long; what is left is cut off");
    }
    // What was not cut off has ended already.
    listeners.shutdown().await;
    background.shutdown().await;
    lanes.shutdown().await;
    engine.close().await;
    info!("stopped");
    Ok(())
}

/// Has the age of the signing key looked at, for ever.
async fn rotate_keys(keys: Arc<KeyRing>) {
    loop {
        tokio::time::sleep(KEY_CHECK).await;
        let keys = keys.clone();
        match tokio::task::spawn_blocking(move || keys.rotate_if_due(SystemClock.now())).await {
            Ok(Ok(rotated)) => info!(rotated, "signing key checked"),
            Ok(Err(failure)) => {
                warn!(error = &failure as &dyn std::error::Error, "the signing key was not rotated")
            }
            Err(failure) => warn!(error = &failure as &dyn std::error::Error, "the signing key was not rotated"),
        }
    }
}

pub(crate) fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restart takes the address over from connections of the last process that linger.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen()
        .with_context(|| format!("cannot listen on {address} (`{key}`); stop what uses it or choose another address"))
}

/// Serves until stopped. Requests under way are answered.
async fn serve(listener: TcpListener, app: Router, mut stopped: watch::Receiver<bool>) {
    let listener = listener.tap_io(|socket| {
        // Frames are small and wait for each other's answers: a delayed one costs a round trip. A socket that does not
        // take the option works all the same.
        drop(socket.set_nodelay(true));
    });
    let app = ServiceExt::<Request>::into_make_service_with_connect_info::<SocketAddr>(app);
    let stop = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
    if let Err(failure) = axum::serve(listener, app).with_graceful_shutdown(stop).await {
        warn!(error = &failure as &dyn std::error::Error, "a listener has failed");
    }
}
