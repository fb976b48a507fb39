const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** A short number: an integer from 100 on, three digits below. */
export function number(value: number): string {
  return Math.abs(value) >= 100 ? numbers.format(value) : fine.format(value);
}

/** A number in short, for axes: 1.5k, 20M. */
export function short(value: number): string {
  const sizes: [number, string][] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [size, unit] = sizes.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
  return `${fine.format(value / size)}${unit}`;
}

/** A duration in milliseconds. */
export function milliseconds(value: number): string {
  return value >= 1000 ? `${fine.format(value / 1000)} s` : `${fine.format(value)} ms`;
}

/** A size in bytes. */
export function bytes(value: number): string {
  const sizes: [number, string][] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  const [size, unit] = sizes.find(([size]) => value >= size) ?? [1, "B"];
  return `${fine.format(value / size)} ${unit}`;
}

/** A relative time, past or future, in the largest nonzero unit. */
export function ago(then: Date, now: Date): string {
  const seconds = Math.round((now.getTime() - then.getTime()) / 1000);
  const units: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [size, unit] = units.find(([size]) => Math.abs(seconds) >= size) ?? [1, "s"];
  const amount = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
  return seconds < 0 ? `in ${amount}` : `${amount} ago`;
}

/** A timestamp to the millisecond, in local time. */
export function moment(text: string): string {
  const date = new Date(text);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** A text of the server with its timestamps in local time. */
export function localTimes(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, moment);
}

/** The end of a mute. The year 9999 stands for a permanent one. */
export function mutedUntil(text: string): string {
  return text.startsWith("9999-") ? "for ever" : `until ${moment(text)}`;
}

/** A count with its noun in singular or plural. */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${numbers.format(value)} ${value === 1 ? one : many}`;
}
