use domain::Invariant;
use ports::{AuditRoutes, Bookmark, GatewayId, RouteRows, StoreError};

use crate::rows::Look;
use crate::{Findings, Pace, Progress};

/// What an audit of routes checks.
pub const ROUTES_CHECKED: &[Invariant] =
    &[Invariant::RoutingTtlBounded, Invariant::ConnIdUniqueness, Invariant::RoutingDenormalizationConsistent];

/// Connections that are read at once.
const PAGE_LEN: usize = 200;
/// How often a suspect is looked at again before it is believed.
const CONFIRMATIONS: usize = 3;

/// Checks the routes of all gateways that beat, from the gateways' side: whatever the inventory of a gateway names, its
/// user leads to as well, and goes by itself. Routes come and go, so what looks wrong is looked at again.
pub async fn audit_routes(routes: &dyn AuditRoutes, pace: &dyn Pace) -> Result<Findings, StoreError> {
    let (mut findings, mut read) = (Findings::default(), 0);
    for gateway in routes.gateways().await? {
        let mut after: Option<Bookmark> = None;
        loop {
            let (mut look, rows, next) = look_at(routes, &gateway, after.as_ref()).await?;
            read += rows;
            pace.read(Progress { stage: "routes", read, all: read }).await;
            for _ in 0..CONFIRMATIONS {
                if look.suspects.is_empty() {
                    break;
                }
                pace.moment().await;
                look.confirm(&look_at(routes, &gateway, after.as_ref()).await?.0);
            }
            look.report(&mut findings);
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(findings)
}

async fn look_at(
    routes: &dyn AuditRoutes,
    gateway: &GatewayId,
    after: Option<&Bookmark>,
) -> Result<(Look, u64, Option<Bookmark>), StoreError> {
    let page = routes.routes(gateway, after, PAGE_LEN).await?;
    let mut look = Look::default();
    for audited in &page.rows {
        match &audited.row {
            Ok(rows) => judge(&mut look, rows),
            Err(reason) => look.check(Invariant::RoutingDenormalizationConsistent, false, || {
                (format!("`{}` of `{}`", audited.key, audited.table), format!("it cannot be read: {reason}"))
            }),
        }
    }
    Ok((look, page.rows.len() as u64, page.next))
}

fn judge(look: &mut Look, rows: &RouteRows) {
    let RouteRows { connection_id, gateway, route, of_user, user_has_gateway, without_expiry } = rows;
    let subject = || format!("{connection_id} on `{}`", gateway.0);
    look.check(Invariant::RoutingTtlBounded, without_expiry.is_empty(), || {
        (subject(), format!("nothing says when these go: {}", without_expiry.join(", ")))
    });
    let named = route.iter().map(|route| &route.gateway).chain(of_user);
    let elsewhere = named.into_iter().find(|other| *other != gateway);
    look.check(Invariant::ConnIdUniqueness, elsewhere.is_none(), || {
        let elsewhere = elsewhere.map_or("", |other| &other.0);
        (subject(), format!("a connection of this id is on `{elsewhere}` too"))
    });
    let wrong = match route {
        None => Some("its gateway names it, and nothing else is known of it"),
        Some(_) if !of_user.contains(gateway) => Some("it is not among the connections of its user"),
        Some(_) if !user_has_gateway => Some("its gateway is not among those of its user"),
        Some(_) => None,
    };
    look.check(Invariant::RoutingDenormalizationConsistent, wrong.is_none(), || {
        (subject(), wrong.unwrap_or_default().to_owned())
    });
}
