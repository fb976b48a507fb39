import { ApiError } from "@tidings/client";

/** Does what needs the server. If it cannot be had, the next connection brings everything anew. */
export async function unlessUnreachable(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (failure) {
    if (!(failure instanceof ApiError)) throw failure;
  }
}
