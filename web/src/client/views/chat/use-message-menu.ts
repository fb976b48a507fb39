import { useMemo } from "preact/hooks";

import { openMenu } from "./message-actions.js";

/** How long a finger rests on a message before its menu opens, and how far it may move meanwhile. */
const LONG_PRESS_MS = 500;
const MOVE_PX = 10;

/**
 * Opens the menus of the messages of a log: by a right click, a long press, or with the keyboard. There the arrow keys
 * move from message to message, and Enter opens the menu.
 */
export function useMessageMenu() {
  return useMemo(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let start = { x: 0, y: 0 };
    /** Whether the finger on the screen has opened a menu. */
    let isLong = false;
    const cancel = () => clearTimeout(timer);
    return {
      onContextMenu: (event: MouseEvent) => {
        const message = messageOf(event.target);
        // Links and selected text have a menu of the browser.
        if (!message || isLink(event.target) || getSelection()?.toString()) return;
        event.preventDefault();
        cancel();
        // Some browsers have this event for a long press too.
        isLong = "pointerType" in event && event.pointerType === "touch";
        if (message === document.activeElement) openAt(message);
        else openMenu(sequenceOf(message), { x: event.clientX, y: event.clientY });
      },
      onPointerDown: (event: PointerEvent) => {
        cancel();
        isLong = false;
        const message = messageOf(event.target);
        if (!message || event.pointerType !== "touch" || isLink(event.target)) return;
        start = { x: event.clientX, y: event.clientY };
        timer = setTimeout(() => {
          isLong = true;
          openMenu(sequenceOf(message), start);
        }, LONG_PRESS_MS);
      },
      onTouchEnd: (event: TouchEvent) => {
        // Otherwise the end of the press clicks the item of the menu that is under the finger now.
        if (isLong) event.preventDefault();
      },
      onPointerMove: ({ clientX, clientY }: PointerEvent) => {
        if (Math.hypot(clientX - start.x, clientY - start.y) > MOVE_PX) cancel();
      },
      onPointerUp: cancel,
      onPointerCancel: cancel,
      onKeyDown: (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
        const message = messageOf(event.target);
        if (event.key === "ArrowUp" || event.key === "ArrowDown") {
          const next = neighbour(event.currentTarget, message, event.key);
          if (!next) return;
          event.preventDefault();
          next.focus();
        } else if (message && event.key === "Enter" && event.target === message) {
          event.preventDefault();
          openAt(message);
        }
      },
    };
  }, []);
}

/** Opens the menu of a message below its top edge, where it covers as little of it as possible. */
export function openAt(message: HTMLElement): void {
  const { left, bottom } = message.getBoundingClientRect();
  openMenu(sequenceOf(message), { x: left, y: bottom + 4 });
}

function messageOf(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>("[data-sequence]") : null;
}

function isLink(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("a") !== null;
}

function sequenceOf(message: HTMLElement): number {
  return Number(message.dataset["sequence"]);
}

/** The message above or below one; from the log itself, the arrow up leads to the last visible message. */
function neighbour(log: HTMLElement, from: HTMLElement | null, key: "ArrowUp" | "ArrowDown"): HTMLElement | undefined {
  const all = [...log.querySelectorAll<HTMLElement>("[data-sequence]")];
  if (from) return all[all.indexOf(from) + (key === "ArrowUp" ? -1 : 1)];
  if (key === "ArrowDown") return undefined;
  const { bottom } = log.getBoundingClientRect();
  return all.findLast((message) => message.getBoundingClientRect().top < bottom);
}
