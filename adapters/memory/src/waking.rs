//! Records wake-ups, to test their order.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Names of the woken tasks, in order.
#[derive(Clone, Default)]
pub(crate) struct Woken(Arc<Mutex<Vec<usize>>>);

struct Sleeper {
    name: usize,
    woken: Woken,
}

impl Woken {
    pub(crate) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.woken.0.lock().unwrap().push(self.name);
    }
}

/// Polls a future as the task with this name.
pub(crate) fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>, woken: &Woken, name: usize) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Sleeper { name, woken: woken.clone() }));
    future.as_mut().poll(&mut Context::from_waker(&waker))
}
