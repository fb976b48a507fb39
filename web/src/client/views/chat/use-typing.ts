import { useEffect, useMemo } from "preact/hooks";

import { client } from "../../sdk.js";

/** Interval of repeated typing announcements: the server ends typing after 10 s. */
const REPEAT_MS = 5000;
/** Pause after which typing has ended. */
const PAUSE_MS = 6000;

/** Announces to the other members that the user is typing, and that they have stopped. */
export function useTyping(chatId: string) {
  const typing = useMemo(() => {
    let toldAt = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    /** A message ends typing for the other members too. */
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
