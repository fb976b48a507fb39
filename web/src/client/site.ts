/** Facts about the server that the page needs before a sign-in. */
export interface Site {
  /** Whether the server runs with `--dev`. */
  readonly dev: boolean;
  /** Whether users sign in with a phone number. */
  readonly phone: boolean;
  /** The origins of pages that may show this one in a frame, and give it tokens. */
  readonly frame_ancestors: readonly string[];
}

/** Without an answer, the page behaves as for a production server with phone numbers. */
const UNKNOWN: Site = { dev: false, phone: true, frame_ancestors: [] };

let asked: Promise<Site> | undefined;

/** The facts of this server, asked for once. */
export function site(): Promise<Site> {
  asked ??= fetch("/client.json")
    .then(async (response) => ({ ...UNKNOWN, ...((await response.json()) as Partial<Site>) }))
    .catch(() => {
      asked = undefined;
      return UNKNOWN;
    });
  return asked;
}
