import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** Forwards TCP connections between a device and the server, unless it is blocked. */
export class Proxy {
  private readonly links = new Set<[Socket, Socket]>();
  isBlocked = false;

  private constructor(
    private readonly listener: Server,
    private readonly port: number,
  ) {
    listener.on("connection", (near) => this.pass(near));
  }

  /** A proxy for the server at this port. */
  static async to(port: number): Promise<Proxy> {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    return new Proxy(listener, port);
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.listener.address() as AddressInfo).port}`;
  }

  /** Drops every connection. */
  cut(): void {
    for (const [near, far] of this.links) {
      near.destroy();
      far.destroy();
    }
  }

  /** Drops every connection, and new ones until it is unblocked. */
  block(): void {
    this.isBlocked = true;
    this.cut();
  }

  unblock(): void {
    this.isBlocked = false;
  }

  /** Stops forwarding on all current connections without closing them. */
  stall(): void {
    for (const [near, far] of this.links) {
      near.unpipe().pause();
      far.unpipe().pause();
    }
  }

  close(): void {
    this.block();
    this.listener.close();
  }

  private pass(near: Socket): void {
    if (this.isBlocked) {
      near.destroy();
      return;
    }
    const far = connect(this.port, "127.0.0.1");
    const link: [Socket, Socket] = [near, far];
    this.links.add(link);
    const drop = (): void => {
      near.destroy();
      far.destroy();
      this.links.delete(link);
    };
    // A close event follows every error and is enough.
    near.on("error", drop).on("close", drop);
    far.on("error", drop).on("close", drop);
    near.pipe(far);
    far.pipe(near);
  }
}
