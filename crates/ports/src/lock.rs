use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning, so that a panic of one task does not spread to every other user of the lock.
///
/// Code that holds the lock must therefore not panic between two writes that belong together.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_panic_under_the_lock_does_not_end_its_use() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(|| {
            let mut value = lock(&mutex);
            *value = 2;
            panic!("under the lock");
        });
        assert!(panicked.is_err() && mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
    }
}
