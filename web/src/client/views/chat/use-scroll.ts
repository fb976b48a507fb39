import type { ChatSummary } from "@tidings/client";
import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { markRead } from "../../state/reading.js";
import type { LogModel } from "./log-model.js";

/** How close to an end, in pixels, more messages are brought in. */
const NEAR_PX = 600;
/** How close to the end the log still follows what arrives. */
const END_PX = 48;

/** The first bubble on the screen, and how far from the top it stands: what must not move when others come and go. */
interface Anchor {
  readonly key: string;
  readonly top: number;
}

/**
 * Keeps the log still: at its end it follows what arrives, elsewhere the bubble at the top of the screen stays where
 * it is while messages come in above, below, or expire. It opens at the first unread message. What has been on the
 * screen is read.
 */
export function useScroll(element: RefObject<HTMLDivElement | null>, model: LogModel, chat: ChatSummary) {
  const anchor = useRef<Anchor>(undefined);
  const follows = useRef(true);
  const hasBegun = useRef(false);
  const [isAtEnd, setAtEnd] = useState(true);

  // This is called before the page changes. The user may have scrolled since the last event told of it, so what stands
  // on the screen now is what has to stay.
  const shown = element.current;
  if (shown && hasBegun.current) {
    anchor.current = topBubble(shown);
    if (below(shown) >= END_PX) follows.current = false;
  }

  /** Takes note of what is on the screen. */
  const look = useCallback(() => {
    const log = element.current;
    if (!log || !hasBegun.current) return;
    anchor.current = topBubble(log);
    const atEnd = below(log) < END_PX && !model.hasNewer.peek();
    follows.current = atEnd;
    setAtEnd(atEnd);
    if (document.visibilityState === "visible") markRead(chat.chat_id, lastSeen(log));
    if (model.isStuck.peek()) return;
    if (log.scrollTop < NEAR_PX && model.hasOlder.peek()) void model.older();
    else if (below(log) < NEAR_PX && model.hasNewer.peek()) void model.newer();
  }, [model, chat.chat_id]);

  /** Puts back what was on the screen, after the page has changed or the log has another size. */
  const settle = useCallback(() => {
    const log = element.current;
    if (!log || !model.isOpen.peek()) return;
    if (!hasBegun.current) {
      hasBegun.current = true;
      const divider = log.querySelector<HTMLElement>("[data-unread]");
      log.scrollTop = divider ? offset(log, divider) + log.scrollTop - log.clientHeight / 4 : log.scrollHeight;
    } else if (follows.current) {
      log.scrollTop = log.scrollHeight;
    } else if (anchor.current) {
      const bubble = log.querySelector<HTMLElement>(`[data-key="${anchor.current.key}"]`);
      if (bubble) log.scrollTop += offset(log, bubble) - anchor.current.top;
    }
    look();
  }, [model, look]);

  useLayoutEffect(settle);
  useEffect(() => {
    const log = element.current;
    if (!log) return undefined;
    const sizes = new ResizeObserver(settle);
    sizes.observe(log);
    log.addEventListener("scroll", look, { passive: true });
    document.addEventListener("visibilitychange", look);
    return () => {
      sizes.disconnect();
      log.removeEventListener("scroll", look);
      document.removeEventListener("visibilitychange", look);
    };
  }, [look, settle]);

  useEffect(() => {
    model.onNewest = () => {
      follows.current = true;
      settle();
    };
  }, [model, settle]);

  return isAtEnd;
}

/** How much of the log lies below the screen. */
function below(log: HTMLElement): number {
  return log.scrollHeight - log.scrollTop - log.clientHeight;
}

/** How far below the top of the log something stands. */
function offset(log: HTMLElement, inside: HTMLElement): number {
  return inside.getBoundingClientRect().top - log.getBoundingClientRect().top;
}

function topBubble(log: HTMLElement): Anchor | undefined {
  for (const bubble of log.querySelectorAll<HTMLElement>("[data-key]")) {
    const top = offset(log, bubble);
    if (top + bubble.offsetHeight > 0) return { key: bubble.dataset["key"] ?? "", top };
  }
  return undefined;
}

/** The highest sequence of which the end is on the screen. */
function lastSeen(log: HTMLElement): number {
  const bubbles = [...log.querySelectorAll<HTMLElement>("[data-sequence]")];
  const seen = bubbles.findLast((bubble) => offset(log, bubble) + bubble.offsetHeight <= log.clientHeight + 1);
  return Number(seen?.dataset["sequence"] ?? 0);
}
