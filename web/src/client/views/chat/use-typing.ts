import { useEffect, useMemo } from "preact/hooks";

import { client } from "../../sdk.js";

/** How often the others are told again: they forget it after 10 s. */
const REPEAT_MS = 5000;
/** A pause this long is no typing any more. */
const PAUSE_MS = 6000;

/** Tells the others of a chat that the user types, and that they have stopped. */
export function useTyping(chatId: string) {
  const typing = useMemo(() => {
    let toldAt = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    /** A message ends it for the others too. */
    const sent = () => {
      clearTimeout(timer);
      toldAt = 0;
    };
    const ended = () => {
      if (toldAt > 0) client.typing(chatId, false);
      sent();
    };
    const typed = (text: string) => {
      if (text.trim() === "") return ended();
      clearTimeout(timer);
      timer = setTimeout(ended, PAUSE_MS);
      if (Date.now() - toldAt < REPEAT_MS) return;
      toldAt = Date.now();
      client.typing(chatId, true);
    };
    return { typed, sent, ended };
  }, [chatId]);
  useEffect(() => typing.ended, [typing]);
  return typing;
}
