use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use auth::KeyRing;
use ports::{Clock, SystemClock, error_chain};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::admin;
use crate::compose::{ComposedService, compose};
use crate::config::Config;
use crate::external_issuer;
use crate::forwarded::TrustedProxies;
use crate::health::{self, HealthState};
use crate::listener::{self, Admission, HttpListener, ListenerBounds};
use crate::notify_socket::NotifySocket;
use crate::reload::{self, ConfigLoader};
use crate::security_events;
use crate::telemetry::Telemetry;
use crate::tls::{self, ListenerCertificate};
use crate::{cors, headers};

/// Deadline of a drain; work left then is aborted. A whole shutdown takes at most 10 s.
const DRAIN_MAX: Duration = Duration::from_secs(8);
/// Backlog of connections to accept. When all clients reconnect at once, the kernel ignores those beyond it, and they
/// retry a second later.
const BACKLOG: u32 = 4096;
/// Bounds of the admin listener. Its clients are operators, probes and collectors, often all of them at one address.
const ADMIN_BOUNDS: ListenerBounds =
    ListenerBounds { connections: 256, connections_per_network: 256, request_bytes: 16 << 20, unauthenticated: None };
/// Interval at which the age of the signing key is checked.
const KEY_CHECK: Duration = Duration::from_secs(3600);

/// Runs the service until `shutdown` completes, then drains it: it accepts no new connections, notifies clients,
/// completes requests in progress, and publishes committed events.
///
/// It prints one line with its address to standard output when it is ready to serve. On SIGHUP it calls `load` again
/// and applies the settings that can change without a restart.
pub async fn run(
    mut config: Config,
    load: ConfigLoader,
    mut telemetry: Telemetry,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let unsafe_settings = config.accepted_unsafe_settings()?;
    let metrics = admin::install_metrics(&config)?;
    telemetry.start(&metrics);
    let manager = Arc::new(NotifySocket::from_environment());
    // Bound first: with an address in use the data directory stays untouched.
    let public = bind("listen", config.listen)?;
    let private = bind("admin.listen", config.admin.listen)?;
    // Port 0 takes any free port.
    config.listen = public.local_addr()?;
    config.admin.listen = private.local_addr()?;
    let [public_certificate, admin_certificate] = tls::open(&config)?;
    let [public_tls, admin_tls] = [&public_certificate, &admin_certificate].map(Option::is_some);
    let security = security_events::open(&config.security_events)
        .with_context(|| format!("cannot write `security_events.file`, `{}`", config.security_events.file))?;
    external_issuer::check(&config).await?;
    let (stop, stopped) = watch::channel(false);
    let ComposedService { app, admin, hub, keys, standing, mut listeners, mut commits, mut background, mut engine } =
        compose(&config, security.stream(), stopped.clone()).await?;
    if let Some(keys) = keys {
        background.spawn(rotate_keys(keys));
    }
    let public_address = public.local_addr()?;
    let admin_address = private.local_addr()?;
    let public_admission = Admission::new("public", config.public_bounds(), config.trusted_proxies()?);
    // No proxy is trusted here: the audit trail records the address of the direct peer.
    let admin_admission = Admission::new("admin", ADMIN_BOUNDS, TrustedProxies::default());
    for admission in [&public_admission, &admin_admission] {
        background.spawn(admission.clone().report());
    }
    let app = security_events::attribute(app);
    let app = cors::allow(listener::bounded(app, public_admission.clone()), &config);
    let public = HttpListener {
        socket: public,
        tls: public_certificate.as_ref().map(ListenerCertificate::acceptor).transpose()?,
        admission: public_admission,
    };
    listeners.spawn(public.serve(headers::harden(app, public_tls), stopped.clone()));
    background.spawn(admin.operators.clone().keep());
    let (pulse, measured) = (admin.pulse.clone(), metrics.clone());
    background.spawn(async move { pulse.run(measured).await });
    background.spawn(admin::measure_process());
    let private = HttpListener {
        socket: private,
        tls: admin_certificate.as_ref().map(ListenerCertificate::acceptor).transpose()?,
        admission: admin_admission,
    };
    let admin = admin::router(admin, metrics, telemetry.level.clone()).merge(health::router(standing.clone()));
    let admin = admin::check_host(security_events::attribute(admin), config.admin_hosts());
    listeners.spawn(private.serve(headers::harden(admin, admin_tls), stopped));
    let certificates: Vec<_> = [public_certificate, admin_certificate].into_iter().flatten().collect();
    if !certificates.is_empty() {
        let hangups = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        background.spawn(tls::keep(certificates, hangups));
    }
    let HealthState { drain, liveness, .. } = standing;
    let watched = manager.clone();
    background.spawn(async move { watched.keep_watched(liveness).await });
    let (level, kept) = (telemetry.level.clone(), telemetry.level.clone());
    background.spawn(async move { kept.keep().await });
    let reloaded: Vec<reload::ReloadHandler> =
        vec![("log.level", Box::new(move |config| Ok(level.configure(&config.log.level)?)))];
    background.spawn(reload::on_hangup(load, reloaded, manager.clone())?);
    if config.dev {
        warn!(
            "--dev: any user can sign in with the code 000000, and codes, sends, requests and connections are not \
             limited; never expose this process to others"
        );
    }
    for setting in unsafe_settings {
        warn!(setting = setting.key, "unsafe setting: {}", setting.message);
    }
    info!(%public_address, %admin_address, data_dir = %config.data_dir.display(), "ready");
    let scheme = if public_tls { "https" } else { "http" };
    let listening = format!("listening on {scheme}://{public_address}");
    if let Err(error) = writeln!(std::io::stdout(), "{listening}") {
        warn!(error = %error_chain(&error), "cannot print the address; the service runs without standard output");
    }
    manager.ready(&listening);

    // These tasks never end by design. If one ends, it has failed unexpectedly, and restarting the process is better
    // than continuing without the task.
    tokio::select! {
        () = shutdown => info!("draining"),
        Some(end) = background.join_next() => bail!("a task of the service has ended: {end:?}"),
        Some(end) = commits.join_next() => bail!("the commits of ingest have ended: {end:?}"),
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
        // No sender is left now, so the commits end when their queue is empty.
        while commits.join_next().await.is_some() {}
    };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        warn!("the drain exceeded its deadline; aborting the remaining work");
    }
    // After a complete drain these sets are empty.
    listeners.shutdown().await;
    background.shutdown().await;
    commits.shutdown().await;
    engine.close().await;
    security.finish().await;
    info!("stopped");
    telemetry.finish().await;
    Ok(())
}

/// Rotates the signing key when it is due, until it is stopped.
async fn rotate_keys(keys: Arc<KeyRing>) {
    loop {
        tokio::time::sleep(KEY_CHECK).await;
        let keys = keys.clone();
        match tokio::task::spawn_blocking(move || keys.rotate_if_due(SystemClock.now())).await {
            Ok(Ok(rotated)) => info!(rotated, "signing key checked"),
            Ok(Err(failure)) => {
                warn!(
                    error = %error_chain(&failure),
                    "could not rotate the signing key; retrying at the next check"
                )
            }
            Err(failure) => warn!(
                error = %error_chain(&failure),
                "could not rotate the signing key; retrying at the next check"
            ),
        }
    }
}

pub(crate) fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Allows a restart to bind while connections of the previous process are in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| {
        format!("cannot listen on {address} (`{key}`); stop the process that uses it or choose another address")
    })
}
