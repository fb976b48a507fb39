use domain::Invariant;
use ports::{AuditRoutes, GatewayId, PageBookmark, RouteRows, StoreError};

use crate::rows::RowChecks;
use crate::{AuditPacer, AuditProgress, Findings};

/// The invariants that an audit of routes checks.
pub const ROUTES_CHECKED: &[Invariant] =
    &[Invariant::RoutingTtlBounded, Invariant::ConnIdUniqueness, Invariant::RoutingDenormalizationConsistent];

/// Connections read in one call.
const PAGE_LEN: usize = 200;
/// How often a suspected violation is re-checked before it is reported.
const CONFIRMATIONS: usize = 3;

/// Checks the routes of all live gateways. Each connection in a gateway's inventory must also be among the routes of its
/// user, and must expire. Routes change all the time, so suspected violations are re-checked.
pub async fn audit_routes(routes: &dyn AuditRoutes, pace: &dyn AuditPacer) -> Result<Findings, StoreError> {
    let (mut findings, mut read) = (Findings::default(), 0);
    for gateway in routes.gateways().await? {
        let mut after: Option<PageBookmark> = None;
        loop {
            let (mut look, rows, next) = look_at(routes, &gateway, after.as_ref()).await?;
            read += rows;
            pace.read(AuditProgress { stage: "routes", read, all: read }).await;
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
    after: Option<&PageBookmark>,
) -> Result<(RowChecks, u64, Option<PageBookmark>), StoreError> {
    let page = routes.routes(gateway, after, PAGE_LEN).await?;
    let mut look = RowChecks::default();
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

fn judge(look: &mut RowChecks, rows: &RouteRows) {
    let RouteRows { connection_id, gateway, route, of_user, user_has_gateway, without_expiry } = rows;
    let subject = || format!("{connection_id} on `{}`", gateway.0);
    look.check(Invariant::RoutingTtlBounded, without_expiry.is_empty(), || {
        (subject(), format!("these have no expiry: {}", without_expiry.join(", ")))
    });
    let named = route.iter().map(|route| &route.gateway).chain(of_user);
    let elsewhere = named.into_iter().find(|other| *other != gateway);
    look.check(Invariant::ConnIdUniqueness, elsewhere.is_none(), || {
        let elsewhere = elsewhere.map_or("", |other| &other.0);
        (subject(), format!("a connection with this id is also on `{elsewhere}`"))
    });
    let wrong = match route {
        None => Some("its gateway lists it, but it has no route"),
        Some(_) if !of_user.contains(gateway) => Some("it is not among the connections of its user"),
        Some(_) if !user_has_gateway => Some("its gateway is not among those of its user"),
        Some(_) => None,
    };
    look.check(Invariant::RoutingDenormalizationConsistent, wrong.is_none(), || {
        (subject(), wrong.unwrap_or_default().to_owned())
    });
}
