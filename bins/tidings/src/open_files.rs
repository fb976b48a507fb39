//! The limit of open files of this process. Each connection takes one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit to the most that the process may set itself. Shells and service managers start processes with a low
/// limit, for programs that can handle no more. If it cannot be raised, it stays.
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(limit, maximum)| {
        if limit < maximum { setrlimit(Resource::RLIMIT_NOFILE, maximum, maximum) } else { Ok(()) }
    });
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files; keeping it");
    }
}
