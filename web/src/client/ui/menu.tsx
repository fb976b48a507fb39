import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { noteDialog } from "../state/dialogs.js";
import { Icon, type IconName } from "./icon.js";

/** A point of the viewport at which a menu opens. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

const MARGIN_PX = 8;

/**
 * A menu at a point, or at the bottom of a phone. The browser keeps the focus in it and gives it back. The arrow keys
 * move between its items; those with the same `data-line` are side by side.
 */
export function Menu(props: { label: string; at: Point; onClose: () => void; children: ComponentChildren }) {
  const { label, at, onClose, children } = props;
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (!dialog.open) dialog.showModal();
    const within = (wanted: number, size: number, room: number) =>
      `${Math.max(MARGIN_PX, Math.min(wanted, room - size - MARGIN_PX))}px`;
    dialog.style.setProperty("--x", within(at.x, dialog.offsetWidth, innerWidth));
    dialog.style.setProperty("--y", within(at.y, dialog.offsetHeight, innerHeight));
    items(dialog)[0]?.focus();
  }, [at]);
  useLayoutEffect(() => noteDialog().close, []);
  return (
    <dialog
      ref={element}
      class="menu-dialog"
      aria-label={label}
      onClose={onClose}
      onPointerDown={(event) => event.target === element.current && element.current?.close()}
      onContextMenu={(event) => event.preventDefault()}
      onKeyDown={(event) => element.current && moveFocus(element.current, event)}
      // A closed dialog gives the focus back; what the item does may move it elsewhere after that.
      onClickCapture={(event) => isItem(event.target) && element.current?.close()}
    >
      <div class="menu-items" role="menu" aria-label={label}>
        {children}
      </div>
    </dialog>
  );
}

/** One item of a menu, with its icon. */
export function MenuItem(props: { icon: IconName; kind?: "plain" | "danger"; onChoose: () => void; children: string }) {
  const { icon, kind = "plain", onChoose, children } = props;
  return (
    <button type="button" role="menuitem" class={`menu-item menu-item-${kind}`} tabIndex={-1} onClick={onChoose}>
      <Icon name={icon} size={18} />
      {children}
    </button>
  );
}

function items(menu: HTMLElement): HTMLElement[] {
  return [...menu.querySelectorAll<HTMLElement>('[role^="menuitem"]')];
}

function isItem(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('[role^="menuitem"]') !== null;
}

function moveFocus(menu: HTMLElement, event: KeyboardEvent): void {
  const all = items(menu);
  const place = all.indexOf(document.activeElement as HTMLElement);
  const line = all[place]?.dataset["line"];
  const isSideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
  const step = event.key === "ArrowDown" || event.key === "ArrowRight" ? 1 : -1;
  let next: HTMLElement | undefined;
  if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all.at(-1);
  else if (isSideways) next = line === undefined ? undefined : all[place + step];
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const isOther = (item: HTMLElement) => line === undefined || item.dataset["line"] !== line;
    next = step > 0 ? all.slice(place + 1).find(isOther) : all.slice(0, Math.max(place, 0)).findLast(isOther);
  } else return;
  event.preventDefault();
  if (isSideways && next?.dataset["line"] !== line) return;
  next?.focus();
}
