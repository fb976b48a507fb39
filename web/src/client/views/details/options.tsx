import type { ChatSummary } from "@tidings/client";

import { changeTtl, mute, unmute } from "../../state/chats.js";
import { attempt } from "../../state/toasts.js";
import { duration } from "../../store/words.js";
import { Select } from "../../ui/select.js";

const MUTES = [
  ["off", "On"],
  ["3600", "Muted for an hour"],
  ["28800", "Muted for 8 hours"],
  ["ever", "Muted"],
] as const;

const TTLS = [30, 300, 3600, 86_400, 604_800];

/** The options of a chat: notifications, and the lifetime of messages. */
export function Options({ chat, canChangeTtl }: { chat: ChatSummary; canChangeTtl: boolean }) {
  const ttl = chat.message_ttl_seconds ?? 0;
  // Another client may have set a value that is not among the options.
  const ttls = [...new Set([...TTLS, ...(ttl > 0 ? [ttl] : [])])].sort((a, b) => a - b);
  const ttlOptions = ttls.map((seconds) => [String(seconds), duration(seconds)] as const);
  return (
    <section class="card" aria-label="Options">
      <Select
        label="Notifications"
        value={chat.my_membership.muted_until ? "ever" : "off"}
        options={MUTES}
        onChange={(choice) =>
          void attempt(() => {
            if (choice === "off") return unmute(chat.chat_id);
            return choice === "ever" ? mute(chat.chat_id) : mute(chat.chat_id, Number(choice));
          })
        }
      />
      <Select
        label="Disappearing messages"
        value={String(ttl)}
        disabled={!canChangeTtl}
        options={[["0", "Off"], ...ttlOptions]}
        onChange={(choice) => void attempt(() => changeTtl(chat.chat_id, choice === "0" ? null : Number(choice)))}
      />
    </section>
  );
}
