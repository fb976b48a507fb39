/** The earliest of the times that are defined. */
export function earliest(...times: (number | undefined)[]): number | undefined {
  let first: number | undefined;
  for (const time of times) {
    if (time !== undefined && (first === undefined || time < first)) {
      first = time;
    }
  }
  return first;
}
