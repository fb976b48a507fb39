const LOCK = "tidings.tab";
let isHeld = false;

/**
 * Makes this tab the active one, unless another is: two tabs of one device would replace each other's connection.
 * `onLost` is called when another tab has taken over. Resolves to whether this tab is active now.
 */
export function claimTab(how: "ifFree" | "takeOver", onLost: () => void): Promise<boolean> {
  // Without the Web Locks API, two active tabs cannot be prevented.
  if (isHeld || !("locks" in navigator)) return Promise.resolve(true);
  return new Promise((resolve) => {
    const options: LockOptions = how === "takeOver" ? { steal: true } : { ifAvailable: true };
    navigator.locks
      .request(LOCK, options, (lock) => {
        isHeld = lock !== null;
        resolve(isHeld);
        // Held until the tab is closed or another one steals the lock.
        return lock === null ? undefined : new Promise<never>(() => {});
      })
      .catch(() => {
        isHeld = false;
        onLost();
      });
  });
}
