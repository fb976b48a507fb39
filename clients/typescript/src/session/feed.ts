import { positionOf, type Entry } from "./entries.js";

/** Most buffered entries above a gap. */
export const EARLY_MAX = 256;

/**
 * Puts the entries of one chat in order: each sequence once, without a gap.
 *
 * The watermark is the sequence up to which nothing is missing. It advances only over the next entry and over ranges
 * that a sync has proven empty. An entry above a gap is buffered. If the buffer is full the entry is dropped, because
 * the sync that fills the gap returns it too.
 */
export class Feed {
  #watermark: number;
  #highestSeen: number;
  readonly #early = new Map<number, Entry>();

  constructor(watermark: number) {
    this.#watermark = this.#highestSeen = watermark;
  }

  get watermark(): number {
    return this.#watermark;
  }

  /** Whether an entry above the watermark is known to be missing. */
  get hasHole(): boolean {
    return this.#highestSeen > this.#watermark;
  }

  /** Takes a pushed entry, and returns the entries that can be handed out now. */
  offer(entry: Entry): Entry[] {
    const { sequence } = positionOf(entry);
    this.#highestSeen = Math.max(this.#highestSeen, sequence);
    if (sequence > this.#watermark && (this.#early.size < EARLY_MAX || sequence === this.#watermark + 1)) {
      this.#early.set(sequence, entry);
    }
    return this.#takeNext();
  }

  /**
   * Takes the entries of a sync page, ascending. The page has all entries up to `examined`. Returns the entries that
   * can be handed out now.
   */
  offerPage(entries: Entry[], examined: number): Entry[] {
    const fresh: Entry[] = [];
    for (const entry of entries) {
      const { sequence } = positionOf(entry);
      if (sequence > this.#watermark) {
        this.#watermark = sequence;
        fresh.push(entry);
      }
    }
    this.#watermark = Math.max(this.#watermark, examined);
    for (const sequence of this.#early.keys()) {
      if (sequence <= this.#watermark) {
        this.#early.delete(sequence);
      }
    }
    return [...fresh, ...this.#takeNext()];
  }

  #takeNext(): Entry[] {
    const next: Entry[] = [];
    for (let entry = this.#early.get(this.#watermark + 1); entry; entry = this.#early.get(this.#watermark + 1)) {
      this.#watermark += 1;
      this.#early.delete(this.#watermark);
      next.push(entry);
    }
    return next;
  }
}
