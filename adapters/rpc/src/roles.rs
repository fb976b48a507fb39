use std::fmt;

use ports::ProcessRole;

use ProcessRole::{Api, Fanout, Gateway, Ingest};

/// The services between processes.
///
/// The table of callers is exhaustive: a role that it does not list for a service is refused.
///
/// | service | answered by | callers | for |
/// |---|---|---|---|
/// | Ingest | ingest | gateway, api | sends, syncs and watermarks, each with an assertion of its user |
/// | Identity | api | gateway | tokens and tickets of handshakes, renewals, checks of open connections |
/// | Presence | api | gateway | presence subscriptions |
/// | Signals | fanout | gateway, ingest | typing indicators, receipts |
/// | Gateway | gateway | fanout, api | revocations, and pushes while Redis is unavailable |
/// | Webhook | api | api | pauses of the webhook while another process moves its consumer group |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FleetService {
    Ingest,
    Identity,
    Presence,
    Signals,
    Gateway,
    Webhook,
}

impl FleetService {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 6] =
        [Self::Ingest, Self::Identity, Self::Presence, Self::Signals, Self::Gateway, Self::Webhook];

    /// The roles that may call the service.
    pub(crate) const fn callers(self) -> &'static [ProcessRole] {
        match self {
            Self::Ingest => &[Gateway, Api],
            Self::Identity | Self::Presence => &[Gateway],
            Self::Signals => &[Gateway, Ingest],
            Self::Gateway => &[Fanout, Api],
            Self::Webhook => &[Api],
        }
    }

    /// The value of the metric label `service`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Identity => "identity",
            Self::Presence => "presence",
            Self::Signals => "signals",
            Self::Gateway => "gateway",
            Self::Webhook => "webhook",
        }
    }
}

impl fmt::Display for FleetService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The DNS name that the certificate of a process has for each of its roles.
pub fn certificate_name(role: ProcessRole) -> String {
    format!("{role}.tidings.internal")
}
