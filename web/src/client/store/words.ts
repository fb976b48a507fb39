/** The time of day: 14:05. */
export function timeOfDay(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** A day in words: Today, Yesterday, Monday, 3 March, 3 March 2025. */
export function dayName(at: number, now: number): string {
  const days = daysBetween(at, now);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  const date = new Date(at);
  if (days > 1 && days < 7) return date.toLocaleDateString([], { weekday: "long" });
  const year = date.getFullYear() === new Date(now).getFullYear() ? {} : { year: "numeric" as const };
  return date.toLocaleDateString([], { day: "numeric", month: "long", ...year });
}

/** A time in short form for lists: 14:05, Yesterday, Mon, 3 Mar. */
export function shortTime(at: number, now: number): string {
  const days = daysBetween(at, now);
  if (days <= 0) return timeOfDay(at);
  if (days === 1) return "Yesterday";
  const date = new Date(at);
  if (days < 7) return date.toLocaleDateString([], { weekday: "short" });
  const year = date.getFullYear() === new Date(now).getFullYear() ? {} : { year: "2-digit" as const };
  return date.toLocaleDateString([], { day: "numeric", month: "short", ...year });
}

/** The time since a user was last seen: just now, 5 minutes ago, yesterday at 14:05. */
export function ago(at: number, now: number): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return minutes === 1 ? "a minute ago" : `${minutes} minutes ago`;
  const days = daysBetween(at, now);
  if (days === 0) return `today at ${timeOfDay(at)}`;
  if (days === 1) return `yesterday at ${timeOfDay(at)}`;
  return `on ${dayName(at, now)}`;
}

/** A moment in words: today at 14:05, yesterday at 14:05, on 3 March at 14:05. */
export function moment(at: number, now: number): string {
  const days = daysBetween(at, now);
  const day = days === 0 ? "today" : days === 1 ? "yesterday" : `on ${dayName(at, now)}`;
  return `${day} at ${timeOfDay(at)}`;
}

/** The remaining lifetime of a message, short: 42s, 5m, 3h, 2d. */
export function timeLeft(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.ceil(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.ceil(seconds / 3600)}h`;
  return `${Math.ceil(seconds / 86_400)}d`;
}

/** A duration in words: 30 seconds, 1 hour, 7 days. */
export function duration(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "day"],
    [3600, "hour"],
    [60, "minute"],
  ];
  const [size, unit] = units.find(([size]) => seconds >= size && seconds % size === 0) ?? [1, "second"];
  const count = seconds / size;
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

/** The first letters of a name's first and last word. */
export function initials(name: string): string {
  const words = name
    .trim()
    .split(/\s+/)
    .filter((word) => /[\p{L}\p{N}]/u.test(word));
  const letters = [words[0], words.length > 1 ? words.at(-1) : undefined].map((word) => firstLetter(word ?? ""));
  return letters.join("").toUpperCase() || "?";
}

/** The fixed hue of an id, which distinguishes users and chats. */
export function hueOf(id: string): number {
  let hash = 7;
  for (const char of id) hash = (hash * 31 + (char.codePointAt(0) ?? 0)) % 9973;
  return (hash * 47) % 360;
}

/** The typing users in words: "Ada is typing", "Ada and Bob are typing", "3 people are typing". */
export function typingWords(names: readonly string[]): string {
  if (names.length === 0) return "";
  if (names.length === 1) return `${names[0]} is typing`;
  if (names.length === 2) return `${names[0]} and ${names[1]} are typing`;
  return `${names.length} people are typing`;
}

function firstLetter(word: string): string {
  return word.match(/[\p{L}\p{N}]/u)?.[0] ?? "";
}

/** Whole days of the calendar from `at` to `now`. */
function daysBetween(at: number, now: number): number {
  const midnight = (time: number) => new Date(time).setHours(0, 0, 0, 0);
  return Math.round((midnight(now) - midnight(at)) / 86_400_000);
}
