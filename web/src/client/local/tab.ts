const LOCK = "tidings.tab";
let isHeld = false;

/**
 * Makes this tab the one that acts, if no other does: two tabs of one device would take the connection from each other.
 * `onLost` is called when another tab has taken over. Resolves to whether this tab acts now.
 */
export function claimTab(how: "ifFree" | "takeOver", onLost: () => void): Promise<boolean> {
  // Browsers without locks are those in which nothing can be done about two tabs.
  if (isHeld || !("locks" in navigator)) return Promise.resolve(true);
  return new Promise((resolve) => {
    const options: LockOptions = how === "takeOver" ? { steal: true } : { ifAvailable: true };
    navigator.locks
      .request(LOCK, options, (lock) => {
        isHeld = lock !== null;
        resolve(isHeld);
        // Held for as long as the tab lives, or until another one steals it.
        return lock === null ? undefined : new Promise<never>(() => {});
      })
      .catch(() => {
        isHeld = false;
        onLost();
      });
  });
}
