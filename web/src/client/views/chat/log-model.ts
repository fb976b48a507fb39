import { batch, computed, signal } from "@preact/signals";
import { ApiError } from "@tidings/client";

import { inbox } from "../../state/inbox.js";
import { loadAfter, loadAround, loadBefore, loadNewest, restoreTimeline, timelineOf } from "../../state/timelines.js";
import { withUpdatesOf } from "../../state/updates.js";
import { lastSegment, segmentAt, type Piece } from "../../store/timeline.js";
import { hasAbove, hasBelow, visible, widenedDown, widenedUp, windowAround, type Window } from "../../store/window.js";

const NOTHING: Piece = { messages: [], covered: { from: 1, to: 0 } };

/**
 * Selects the messages of a chat that are on the page, and loads more of them.
 *
 * The page shows a window of one interval without gaps: the interval around `target`. It starts at the read watermark,
 * grows in both directions as the user scrolls, and drops distant messages.
 */
export class LogModel {
  /** A sequence inside the shown interval. */
  private readonly target = signal(1);
  private readonly window = signal<Window>({ from: 0, to: Infinity });
  /** Whether the first messages are loaded. */
  readonly isOpen = signal(false);
  /** The direction in which messages are loading. */
  readonly loading = signal<"up" | "down" | undefined>(undefined);
  /** Whether the server could not be reached. */
  readonly isStuck = signal(false);
  /** The sequence above which messages were unread when the chat was opened. */
  readonly unreadAbove = signal<number | undefined>(undefined);

  /** Called when the newest messages were requested and are loaded: the log scrolls to its end. */
  onNewest: (() => void) | undefined;

  constructor(private readonly chatId: string) {}

  private readonly piece = computed(() => segmentAt(timelineOf(this.chatId).value, this.target.value) ?? NOTHING);

  private readonly loaded = computed(() => visible(this.piece.value.messages, this.window.value));

  /** The messages on the page, as they will be after the pending updates of this device. */
  readonly messages = computed(() => withUpdatesOf(this.chatId, this.loaded.value));

  /** Whether there are messages above the window. */
  readonly hasOlder = computed(
    () => this.piece.value.covered.from > 1 || hasAbove(this.piece.value.messages, this.window.value),
  );

  /** Whether there are messages below the window. */
  readonly hasNewer = computed(
    () => this.piece.value.covered.to < this.head() || hasBelow(this.piece.value.messages, this.window.value),
  );

  /** Whether this device has messages below the window: sends belong below all of them. */
  readonly isCut = computed(() => hasBelow(this.piece.value.messages, this.window.value));

  /** Loads the messages around the read watermark; without a server, the newest on this device. */
  async open(): Promise<void> {
    await restoreTimeline(this.chatId);
    const chat = inbox.peek().get(this.chatId);
    const isUnread = chat !== undefined && chat.unread_count > 0;
    const wanted = Math.max(1, isUnread ? chat.my_read_sequence : this.head());
    if (this.head() > 0 && !this.segment(wanted)) {
      await this.ask(undefined, () => (isUnread ? loadAround(this.chatId, wanted) : loadNewest(this.chatId)));
    }
    const piece = this.segment(wanted) ?? lastSegment(timelineOf(this.chatId).peek());
    batch(() => {
      this.target.value = this.segment(wanted) ? wanted : (piece?.covered.to ?? 1);
      this.window.value = windowAround(piece?.messages ?? [], this.target.value);
      this.unreadAbove.value = isUnread ? chat.my_read_sequence : undefined;
      this.isOpen.value = true;
    });
  }

  /** Adds older messages to the page. */
  async older(): Promise<void> {
    const { messages, covered } = this.piece.peek();
    if (!hasAbove(messages, this.window.peek())) {
      if (covered.from <= 1 || covered.to < covered.from || this.loading.peek()) return;
      await this.ask("up", () => loadBefore(this.chatId, covered.from));
    }
    this.window.value = widenedUp(this.piece.peek().messages, this.window.peek());
  }

  /** Adds newer messages to the page. */
  async newer(): Promise<void> {
    const { messages, covered } = this.piece.peek();
    if (!hasBelow(messages, this.window.peek())) {
      if (covered.to >= this.head() || this.loading.peek()) return;
      if (covered.to < covered.from) return this.toNewest();
      await this.ask("down", () => loadAfter(this.chatId, covered.to));
    }
    this.window.value = widenedDown(this.piece.peek().messages, this.window.peek());
  }

  /** Shows the newest messages. */
  async toNewest(): Promise<void> {
    const head = this.head();
    if (head > 0 && !this.segment(head)) await this.ask("down", () => loadNewest(this.chatId));
    const piece = this.segment(head);
    if (!piece) return this.onNewest?.();
    batch(() => {
      this.target.value = head;
      this.window.value = windowAround(piece.messages, head);
    });
    this.onNewest?.();
  }

  /** Retries a failed load. */
  async retry(): Promise<void> {
    if (!this.isStuck.peek()) return;
    this.isStuck.value = false;
    if (this.messages.peek().length === 0) await this.open();
  }

  private head(): number {
    return inbox.value.get(this.chatId)?.head_sequence ?? 0;
  }

  private segment(sequence: number): Piece | undefined {
    return segmentAt(timelineOf(this.chatId).peek(), sequence);
  }

  private async ask(direction: "up" | "down" | undefined, load: () => Promise<void>): Promise<void> {
    this.loading.value = direction;
    try {
      await load();
      this.isStuck.value = false;
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      this.isStuck.value = true;
    } finally {
      this.loading.value = undefined;
    }
  }
}
