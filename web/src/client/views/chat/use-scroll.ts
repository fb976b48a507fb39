import type { ChatSummary } from "@tidings/client";
import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { markRead } from "../../state/reading.js";
import type { LogModel } from "./log-model.js";

/** Distance to an end, in pixels, at which more messages are loaded. */
const NEAR_PX = 600;
/** Distance to the end within which the log follows new messages. */
const END_PX = 48;

/** The first visible bubble and its distance from the top, which must stay fixed while others are added or removed. */
interface Anchor {
  readonly key: string;
  readonly top: number;
}

/**
 * Keeps the scroll position stable: at its end the log follows new messages; elsewhere the topmost visible bubble stays
 * in place while messages are added above or below, or expire. It opens at the first unread message. Messages that were
 * on the screen are marked as read.
 */
export function useScroll(element: RefObject<HTMLDivElement | null>, model: LogModel, chat: ChatSummary) {
  const anchor = useRef<Anchor>(undefined);
  const follows = useRef(true);
  const hasBegun = useRef(false);
  const [isAtEnd, setAtEnd] = useState(true);

  // This runs before the DOM changes. The user may have scrolled since the last scroll event, so the anchor is measured
  // now.
  const shown = element.current;
  if (shown && hasBegun.current) {
    anchor.current = topBubble(shown);
    if (below(shown) >= END_PX) follows.current = false;
  }

  /** Records the anchor, marks messages as read, and loads more near an end. */
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

  /** Restores the anchor after the page or the size of the log has changed. */
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

/** The height of the log below the viewport. */
function below(log: HTMLElement): number {
  return log.scrollHeight - log.scrollTop - log.clientHeight;
}

/** The distance of an element from the top of the log. */
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

/** The highest sequence with its bottom edge on the screen. */
function lastSeen(log: HTMLElement): number {
  const bubbles = [...log.querySelectorAll<HTMLElement>("[data-sequence]")];
  const seen = bubbles.findLast((bubble) => offset(log, bubble) + bubble.offsetHeight <= log.clientHeight + 1);
  return Number(seen?.dataset["sequence"] ?? 0);
}
