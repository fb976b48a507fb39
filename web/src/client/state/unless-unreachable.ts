import { ApiError } from "@tidings/client";

/**
 * Runs an action that needs the server. If the server is unreachable, the error is ignored, because the next connection
 * reloads everything.
 */
export async function unlessUnreachable(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (failure) {
    if (!(failure instanceof ApiError)) throw failure;
  }
}
