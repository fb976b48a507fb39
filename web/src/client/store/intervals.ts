/** Sequences from `from` to `to`, both included. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** Intervals in order, which neither overlap nor touch. */
export type Intervals = readonly Interval[];

/** Adds an interval. Overlapping and adjacent intervals are merged. */
export function withInterval(intervals: Intervals, added: Interval): Intervals {
  if (added.from > added.to) return intervals;
  let { from, to } = added;
  const apart: Interval[] = [];
  for (const interval of intervals) {
    if (interval.to + 1 < from || interval.from - 1 > to) {
      apart.push(interval);
    } else {
      from = Math.min(from, interval.from);
      to = Math.max(to, interval.to);
    }
  }
  return [...apart, { from, to }].sort((a, b) => a.from - b.from);
}

/** The interval that contains a sequence. */
export function intervalAt(intervals: Intervals, sequence: number): Interval | undefined {
  return intervals.find((interval) => interval.from <= sequence && sequence <= interval.to);
}
