/**
 * The part of a chat that is on the page: sequences from `from` to `to`, both included. A window with an infinite `to`
 * follows new messages.
 */
export interface Window {
  readonly from: number;
  readonly to: number;
}

interface Sequenced {
  readonly sequence: number;
}

/** Messages that are added to the page at a time. */
export const STEP = 50;
/** Most messages on the page: more would slow down a phone without being visible. */
export const SIZE_MAX = 250;

/** A window with the messages around a sequence. */
export function windowAround(messages: readonly Sequenced[], sequence: number): Window {
  const after = messages.findIndex((message) => message.sequence > sequence);
  const place = after === -1 ? messages.length : after;
  const end = place + STEP;
  return {
    from: messages[Math.max(0, place - STEP)]?.sequence ?? 0,
    to: end >= messages.length ? Infinity : (messages[end]?.sequence ?? Infinity),
  };
}

/** The messages of a window. */
export function visible<T extends Sequenced>(messages: readonly T[], window: Window): readonly T[] {
  return messages.filter(({ sequence }) => window.from <= sequence && sequence <= window.to);
}

/** A window with up to `STEP` older messages, and fewer new ones if there are too many. */
export function widenedUp(messages: readonly Sequenced[], window: Window): Window {
  const first = messages.findIndex(({ sequence }) => sequence >= window.from);
  const start = Math.max(0, (first === -1 ? messages.length : first) - STEP);
  const from = messages[start]?.sequence ?? window.from;
  const beyond = messages[start + SIZE_MAX];
  return { from: Math.min(from, window.from), to: beyond ? Math.min(window.to, beyond.sequence - 1) : window.to };
}

/** A window with up to `STEP` newer messages, and fewer old ones if there are too many. */
export function widenedDown(messages: readonly Sequenced[], window: Window): Window {
  if (window.to === Infinity) return window;
  const next = messages.findIndex(({ sequence }) => sequence > window.to);
  if (next === -1) return { ...window, to: Infinity };
  const end = next + STEP;
  const to = end >= messages.length ? Infinity : (messages[end]?.sequence ?? Infinity);
  const start = Math.max(0, Math.min(end, messages.length) - SIZE_MAX);
  return { from: Math.max(window.from, messages[start]?.sequence ?? window.from), to };
}

/** Whether there are known messages above the window. */
export function hasAbove(messages: readonly Sequenced[], window: Window): boolean {
  const first = messages[0];
  return first !== undefined && first.sequence < window.from;
}

/** Whether there are known messages below the window. */
export function hasBelow(messages: readonly Sequenced[], window: Window): boolean {
  const last = messages.at(-1);
  return last !== undefined && last.sequence > window.to;
}
