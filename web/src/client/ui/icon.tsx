/** The icons of the application: 24 units square, drawn with one stroke width. */
const PATHS = {
  back: "M15 5l-7 7 7 7",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 20.5a2.2 2.2 0 0 0 4 0",
  bellOff: "M6.5 9.5A5.5 5.5 0 0 1 17.6 9M18 13v3l1.5 2H9M4.5 18 6 16v-2.5M10 20.5a2.2 2.2 0 0 0 4 0M4 4l16 16",
  check: "M5 12.5l4.5 4.5L19 7.5",
  clock: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM12 7.5V12l3 2",
  close: "M6 6l12 12M18 6L6 18",
  compose: "M4 20h4L19 9a2.1 2.1 0 0 0-3-3L5 17zM14 8l3 3",
  contrast: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM12 3.5v17M12 8h4.5M12 12h8M12 16h6",
  copy: "M9 9h10.5v10.5H9zM15 9V4.5H4.5V15H9",
  device: "M4 5h16v11H4zM9 20h6M12 16v4",
  down: "M6 9l6 6 6-6",
  eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6z",
  forward: "M9 5l7 7-7 7",
  group:
    "M9 5.5a3.2 3.2 0 1 1 0 6.4 3.2 3.2 0 0 1 0-6.4zM2.8 19c0-3.2 2.7-5.2 6.2-5.2s6.2 2 6.2 5.2M16 6.2a2.8 2.8 0 0 1 0 5.3M17.5 14.3c2.2.6 3.7 2.3 3.7 4.7",
  info: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM12 11v5.5M12 7.7v.1",
  key: "M8 11a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM11 12l8.5-8.5M16 7l3 3M13.5 9.5l2 2",
  leave: "M14 4H6v16h8M10 12h10M16.5 8.5L20 12l-3.5 3.5",
  more: "M6 12v.1M12 12v.1M18 12v.1",
  person: "M12 4.5a3.8 3.8 0 1 1 0 7.6 3.8 3.8 0 0 1 0-7.6zM4.5 20c0-3.8 3.3-6 7.5-6s7.5 2.2 7.5 6",
  plus: "M12 5v14M5 12h14",
  search: "M10.8 4.5a6.3 6.3 0 1 1 0 12.6 6.3 6.3 0 0 1 0-12.6zM15.5 15.5L20 20",
  send: "M12 19V5.5M6 11l6-6 6 6",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M7 14.5v5",
  smile:
    "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM8.5 14c.8 1.3 2 2 3.5 2s2.7-.7 3.5-2M9 9.5v.1M15 9.5v.1",
  timer: "M12 6.5a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM12 10v3.5M9.5 3.5h5",
  trash: "M4.5 7h15M9.5 7V4.5h5V7M6.5 7l1 12.5h9l1-12.5M10 11v5M14 11v5",
  warning: "M12 4.5L3 19.5h18zM12 10v4.5M12 17v.1",
} as const;

/** The name of an icon. */
export type IconName = keyof typeof PATHS;

/** An icon beside a text with the same meaning, so screen readers skip it. */
export function Icon({ name, size = 20 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
