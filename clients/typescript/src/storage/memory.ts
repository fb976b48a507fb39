import type { KeptDevice, Position, QueuedEntry, Storage } from "./storage.js";

/** Stores everything in memory, for the lifetime of the object: for bots without state, and for tests. */
export function memoryStorage(): Storage {
  let device: KeptDevice | undefined;
  const sends = new Map<string, QueuedEntry>();
  const positions = new Map<string, number>();
  return {
    device: async () => device,
    keepDevice: async (kept) => void (device = kept),
    sends: async () => [...sends.values()],
    addSend: async (entry) => void sends.set(entry.clientMessageId, entry),
    removeSend: async (clientMessageId) => void sends.delete(clientMessageId),
    positions: async () => [...positions].map(([chatId, sequence]): Position => ({ chatId, sequence })),
    keepPosition: async ({ chatId, sequence }) => void positions.set(chatId, sequence),
    forgetPosition: async (chatId) => void positions.delete(chatId),
    clear: async () => {
      sends.clear();
      positions.clear();
    },
  };
}
