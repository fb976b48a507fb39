import type { Sample } from "./answers";

/** Stored samples: half an hour, like the server. */
export const SAMPLES_MAX = 900;

/** Appends new samples without duplicates, and drops the oldest. */
export function merge(kept: readonly Sample[], news: readonly Sample[]): Sample[] {
  const last = kept.at(-1)?.at ?? "";
  // Times of one form sort as texts.
  return [...kept, ...news.filter((sample) => sample.at > last)].slice(-SAMPLES_MAX);
}

/** The samples of the given number of seconds before the newest. */
export function within(samples: readonly Sample[], seconds: number): Sample[] {
  const newest = samples.at(-1);
  if (newest === undefined) return [];
  const from = Date.parse(newest.at) - seconds * 1000;
  return samples.filter((sample) => Date.parse(sample.at) > from);
}

/** One line of a plot. */
export interface Line {
  name: string;
  values: (number | null)[];
}

/** The line of one measure. */
export function line(samples: readonly Sample[], name: string, value: (sample: Sample) => number | null): Line {
  return { name, values: samples.map(value) };
}

/** One line per name in a table of measures, ordered by name. A sample without the name counts as 0. */
export function linesByName(samples: readonly Sample[], table: (sample: Sample) => Record<string, number>): Line[] {
  const names = new Set(samples.flatMap((sample) => Object.keys(table(sample))));
  return [...names].sort().map((name) => line(samples, name, (sample) => table(sample)[name] ?? 0));
}

/** The times of samples in seconds, the unit of plots. */
export function times(samples: readonly Sample[]): number[] {
  return samples.map((sample) => Date.parse(sample.at) / 1000);
}

/** The sum of a table of measures. */
export function total(table: Record<string, number>): number {
  return Object.values(table).reduce((sum, value) => sum + value, 0);
}
