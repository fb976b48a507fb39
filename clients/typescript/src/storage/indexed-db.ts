import type { KeptDevice, Position, QueuedEntry, Storage } from "./storage.js";

/**
 * Stores everything in the browser's IndexedDB, in a database of this name. A page that was closed or killed resumes
 * from it.
 */
export function indexedDbStorage(name: string): Storage {
  let opening: Promise<IDBDatabase> | undefined;

  async function database(): Promise<IDBDatabase> {
    opening ??= open(name, () => (opening = undefined));
    try {
      return await opening;
    } catch (error) {
      // The next call retries: a database may be blocked only briefly.
      opening = undefined;
      throw error;
    }
  }

  /** Resolves when the transaction is complete and durable. */
  async function change(store: Store | Store[], act: (transaction: IDBTransaction) => void): Promise<void> {
    const transaction = (await database()).transaction(store, "readwrite", { durability: "strict" });
    act(transaction);
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error(`database \`${name}\` gave up a change`));
    });
  }

  async function read<T>(store: Store, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const request = ask((await database()).transaction(store).objectStore(store));
    return new Promise((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  }

  return {
    device: () => read<KeptDevice | undefined>("device", (store) => store.get(DEVICE)),
    keepDevice: (device) => change("device", (transaction) => transaction.objectStore("device").put(device, DEVICE)),
    sends: async () => {
      const rows = await read<QueuedEntry[]>("sends", (store) => store.getAll());
      return rows.map(withoutOrder);
    },
    addSend: (entry) =>
      change("sends", (transaction) => {
        const store = transaction.objectStore("sends");
        const known = store.index("clientMessageId").getKey(entry.clientMessageId);
        known.onsuccess = () => {
          if (known.result === undefined) {
            store.add(entry);
          }
        };
      }),
    removeSend: (clientMessageId) =>
      change("sends", (transaction) => {
        const store = transaction.objectStore("sends");
        const known = store.index("clientMessageId").getKey(clientMessageId);
        known.onsuccess = () => {
          if (known.result !== undefined) {
            store.delete(known.result);
          }
        };
      }),
    positions: () => read<Position[]>("positions", (store) => store.getAll()),
    keepPosition: (position) =>
      change("positions", (transaction) => transaction.objectStore("positions").put(position)),
    forgetPosition: (chatId) =>
      change("positions", (transaction) => transaction.objectStore("positions").delete(chatId)),
    clear: () =>
      change(["sends", "positions"], (transaction) => {
        transaction.objectStore("sends").clear();
        transaction.objectStore("positions").clear();
      }),
  };
}

type Store = "device" | "sends" | "positions";

/** The key of the only row in its store. */
const DEVICE = "device";
const VERSION = 1;

function open(name: string, onClosed: () => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, VERSION);
    request.onupgradeneeded = () => {
      const database = request.result;
      database.createObjectStore("device");
      database.createObjectStore("positions", { keyPath: "chatId" });
      const sends = database.createObjectStore("sends", { keyPath: "order", autoIncrement: true });
      sends.createIndex("clientMessageId", "clientMessageId", { unique: true });
    };
    request.onsuccess = () => {
      const database = request.result;
      // A later version of the page in another tab must be able to change the database without waiting for this one.
      database.onversionchange = () => {
        database.close();
        onClosed();
      };
      database.onclose = onClosed;
      resolve(database);
    };
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error(`database \`${name}\` is blocked by another tab; close that tab`));
  });
}

/** Removes the `order` key, which only this storage uses. */
function withoutOrder(row: QueuedEntry & { order?: number }): QueuedEntry {
  const { order: _, ...entry } = row;
  return entry;
}
