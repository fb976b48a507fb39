import { ApiError } from "./errors.js";
import type { Http } from "./http.js";
import type { KeptDevice, KeptTokens, Storage } from "./storage/storage.js";
import type { Tokens } from "./wire.js";

/** How long before its expiry an access token is renewed. */
const EARLY_MS = 5 * 60_000;

/** The sources of a device's access token. */
export interface AccessOptions {
  /** The device's id; by default the stored one, or a new one. */
  deviceId?: string | undefined;
  /** Tokens of an earlier run, used if the storage has none. */
  tokens?: Tokens | undefined;
  /** Another system's tokens, instead of those of the service. */
  external?: (() => Promise<string>) | undefined;
  /** Called and awaited before data of the user is deleted. */
  onForget: () => Promise<void>;
}

/**
 * The identity and tokens of a device. Tokens are renewed five minutes before they expire.
 *
 * At most one renewal is in flight, over all tabs: a refresh token is valid once, and two renewals with the same one
 * would revoke the session.
 */
export class Access {
  #opened: Promise<KeptDevice> | undefined;
  #renewal: Promise<string> | undefined;
  /** When the tokens are due for renewal, in milliseconds of the Unix epoch; unknown for external tokens. */
  renewAt: number | undefined;
  /** The access token that this tab has last read or renewed. It may have expired. Unknown for external tokens. */
  presentToken: string | undefined;
  readonly #http: Http;
  readonly #storage: Storage;
  readonly #options: AccessOptions;

  constructor(http: Http, storage: Storage, options: AccessOptions) {
    this.#http = http;
    this.#storage = storage;
    this.#options = options;
  }

  /** The id of this device. */
  async deviceId(): Promise<string> {
    return (await this.#device()).deviceId;
  }

  /** Whether a token is available. The server may still refuse it. */
  async isSignedIn(): Promise<boolean> {
    return this.#options.external !== undefined || (await this.#device()).tokens !== undefined;
  }

  /** An access token, renewed first if it expires soon. */
  async token(): Promise<string> {
    if (this.#options.external !== undefined) {
      return this.#options.external();
    }
    const tokens = signedIn((await this.#device()).tokens);
    return Date.now() < tokens.renewAt ? tokens.accessToken : this.renew(tokens.accessToken);
  }

  /** Replaces the access token `stale`, unless another caller already has. */
  renew(stale: string): Promise<string> {
    if (this.#options.external !== undefined) {
      return this.#options.external();
    }
    this.#renewal ??= this.#alone(() => this.#renewNow(stale)).finally(() => (this.#renewal = undefined));
    return this.#renewal;
  }

  /** Stores the tokens after a sign-in. The stored data of another user is deleted. */
  async signedIn(userId: string, tokens: Tokens): Promise<void> {
    const device = await this.#device();
    if (device.userId !== undefined && device.userId !== userId) {
      await this.#options.onForget();
      await this.#storage.clear();
    }
    await this.#keep({ deviceId: device.deviceId, userId, tokens: kept(tokens) });
  }

  /** Deletes all data of the user. The device keeps its id. */
  async forget(): Promise<void> {
    await this.#options.onForget();
    await this.#keep({ deviceId: await this.deviceId() });
    await this.#storage.clear();
  }

  #device(): Promise<KeptDevice> {
    this.#opened ??= this.#open().catch((error: unknown) => {
      // The next call reads the storage again.
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }

  async #open(): Promise<KeptDevice> {
    const found = await this.#storage.device();
    const { deviceId, tokens } = this.#options;
    const device: KeptDevice = {
      deviceId: crypto.randomUUID(),
      ...found,
      ...(deviceId === undefined ? {} : { deviceId }),
    };
    if (device.tokens === undefined && tokens !== undefined) {
      device.tokens = kept(tokens);
    }
    await this.#keep(device);
    return device;
  }

  async #keep(device: KeptDevice): Promise<void> {
    await this.#storage.keepDevice(device);
    this.#opened = Promise.resolve(device);
    this.renewAt = device.tokens?.renewAt;
    this.presentToken = device.tokens?.accessToken;
  }

  async #renewNow(stale: string): Promise<string> {
    // Another tab may have renewed them while this one waited.
    const device = (await this.#storage.device()) ?? (await this.#device());
    const { accessToken, refreshToken } = signedIn(device.tokens);
    if (accessToken !== stale) {
      await this.#keep(device);
      return accessToken;
    }
    const body = { refresh_token: refreshToken, device_id: device.deviceId };
    try {
      const { data } = await this.#http.call("post", "/api/v1/auth/refresh", { body });
      await this.#keep({ ...device, tokens: kept(data.tokens) });
      return data.tokens.access_token;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        const { tokens: _, ...signedOut } = device;
        await this.#keep(signedOut);
      }
      throw error;
    }
  }

  /** Runs `act` under a lock that all tabs of this device share, where the browser has locks. */
  async #alone<T>(act: () => Promise<T>): Promise<T> {
    const locks = typeof navigator === "undefined" ? undefined : navigator.locks;
    return locks === undefined ? act() : locks.request(`tidings:tokens:${await this.deviceId()}`, act);
  }
}

function signedIn(tokens: KeptTokens | undefined): KeptTokens {
  if (tokens === undefined) {
    throw new ApiError("nobody is signed in on this device; sign in first", { code: "NOT_SIGNED_IN" });
  }
  return tokens;
}

/** Tokens that were received now. Tokens with a lifetime shorter than the margin are renewed half way through it. */
function kept(tokens: Tokens): KeptTokens {
  const life = tokens.expires_in * 1000;
  const goodFor = life > EARLY_MS ? life - EARLY_MS : life / 2;
  return { accessToken: tokens.access_token, refreshToken: tokens.refresh_token, renewAt: Date.now() + goodFor };
}
