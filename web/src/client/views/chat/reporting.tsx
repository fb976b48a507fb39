import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { Report } from "../report.js";

/** The message with an open report dialog. */
export const reportedMessage = signal<{ readonly messageId: string; readonly author: string } | undefined>(undefined);

/** The dialog that reports a message. */
export function Reporting() {
  useEffect(() => () => void (reportedMessage.value = undefined), []);
  const reported = reportedMessage.value;
  if (!reported) return null;
  return (
    <Report
      what={{ message_id: reported.messageId }}
      name={`the message of ${reported.author}`}
      onClose={() => (reportedMessage.value = undefined)}
    />
  );
}
