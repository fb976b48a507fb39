use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use auth::KeyRing;
use ports::{Clock, SystemClock};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::admin;
use crate::compose::{Service, compose};
use crate::config::Config;
use crate::forwarded::TrustedProxies;
use crate::listener::Listener;
use crate::notify_socket::NotifySocket;
use crate::reload::{self, Load};
use crate::telemetry::Telemetry;
use crate::tls::{self, Certificate};
use crate::{cors, headers};

/// How long a drain may take before what is left is cut off; a whole shutdown takes at most 10 s.
const DRAIN_MAX: Duration = Duration::from_secs(8);
/// Connections that may wait to be accepted. When all clients of a server come back at once, those beyond it are not
/// refused but try again a second later.
const BACKLOG: u32 = 4096;
/// Connections of operators, at the most.
const ADMIN_CONNECTIONS_MAX: usize = 256;
/// How often the age of the signing key is looked at.
const KEY_CHECK: Duration = Duration::from_secs(3600);

/// Runs the service until `shutdown` is ready, then drains it: no new connections, clients told, everything under way
/// answered, everything committed brought where it belongs.
///
/// One line on standard output says where it listens, once it is ready to serve. On SIGHUP the configuration is read by
/// `load` once more, and what can change without a restart is taken over from it.
pub async fn run(
    config: Config,
    load: Load,
    mut telemetry: Telemetry,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let metrics = admin::install_metrics(&config)?;
    telemetry.start(&metrics);
    let manager = Arc::new(NotifySocket::from_environment());
    // Bound first: with an address in use the data directory stays untouched.
    let public = bind("listen", config.listen)?;
    let private = bind("admin.listen", config.admin.listen)?;
    let [public_certificate, admin_certificate] = tls::open(&config)?;
    let [public_tls, admin_tls] = [&public_certificate, &admin_certificate].map(Option::is_some);
    let (stop, stopped) = watch::channel(false);
    let Service { app, admin, hub, keys, drain, liveness, mut listeners, mut lanes, mut background, mut engine } =
        compose(&config, stopped.clone()).await?;
    if let Some(keys) = keys {
        background.spawn(rotate_keys(keys));
    }
    let public_address = public.local_addr()?;
    let admin_address = private.local_addr()?;
    let public = Listener {
        name: "public",
        socket: public,
        tls: public_certificate.as_ref().map(Certificate::acceptor).transpose()?,
        proxies: config.trusted_proxies()?,
        connections_max: config.http_connections_max,
    };
    listeners.spawn(public.serve(headers::harden(cors::allow(app, &config), public_tls), stopped.clone()));
    let (pulse, measured) = (admin.pulse.clone(), metrics.clone());
    background.spawn(async move { pulse.run(measured).await });
    background.spawn(admin::measure_process());
    let private = Listener {
        name: "admin",
        socket: private,
        tls: admin_certificate.as_ref().map(Certificate::acceptor).transpose()?,
        // What operators do is noted down with the address that really did it.
        proxies: TrustedProxies::default(),
        connections_max: ADMIN_CONNECTIONS_MAX,
    };
    listeners.spawn(
        private.serve(headers::harden(admin::router(admin, metrics, telemetry.level.clone()), admin_tls), stopped),
    );
    let certificates: Vec<_> = [public_certificate, admin_certificate].into_iter().flatten().collect();
    if !certificates.is_empty() {
        let hangups = signal(SignalKind::hangup()).context("SIGHUP cannot be listened for")?;
        background.spawn(tls::keep(certificates, hangups));
    }
    let watched = manager.clone();
    background.spawn(async move { watched.keep_watched(liveness).await });
    let (level, kept) = (telemetry.level.clone(), telemetry.level.clone());
    background.spawn(async move { kept.keep().await });
    let reloaded: Vec<reload::Part> =
        vec![("log.level", Box::new(move |config| Ok(level.configure(&config.log.level)?)))];
    background.spawn(reload::on_hangup(load, reloaded, manager.clone())?);
    if config.dev {
        warn!("--dev: anybody can sign in with the code 000000; never let others reach this process");
    }
    info!(%public_address, %admin_address, data_dir = %config.data_dir.display(), "ready");
    let scheme = if public_tls { "https" } else { "http" };
    let listening = format!("listening on {scheme}://{public_address}");
    writeln!(std::io::stdout(), "{listening}").context("cannot write to standard output")?;
    manager.ready(&listening);

    // These go on for ever. One that ends has failed in a way nobody foresaw, and a process that is started anew is better
    // than one that lives on without it.
    tokio::select! {
        () = shutdown => info!("draining"),
        Some(end) = background.join_next() => bail!("a task of the service has ended: {end:?}"),
        Some(end) = lanes.join_next() => bail!("a lane of ingest has ended: {end:?}"),
        Some(end) = listeners.join_next() => bail!("a listener has ended: {end:?}"),
        failure = engine.failed() => return Err(failure),
    }
    drain.end_of_process();
    manager.stopping("draining");
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
    telemetry.finish().await;
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
