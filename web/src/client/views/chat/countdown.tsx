import { useEffect, useState } from "preact/hooks";

import { timeLeft } from "../../store/words.js";
import { Icon } from "../../ui/icon.js";

/** The remaining lifetime of a message. It updates every second only while seconds are shown. */
export function Countdown({ until }: { until: number }) {
  const [left, setLeft] = useState(until - Date.now());
  useEffect(() => {
    const every = left > 90_000 ? 30_000 : 1000;
    const timer = setTimeout(() => setLeft(until - Date.now()), every);
    return () => clearTimeout(timer);
  }, [left, until]);
  return (
    <span class="countdown" title="This message disappears">
      <Icon name="timer" size={13} />
      <span class="visually-hidden">Disappears in </span>
      {timeLeft(left)}
    </span>
  );
}
