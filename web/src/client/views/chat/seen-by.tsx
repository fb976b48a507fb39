import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { watermarksOf } from "../../state/receipts.js";
import { Dialog } from "../../ui/dialog.js";
import { People } from "./people.js";

/** The message with an open "seen by" dialog. */
export const askedSequence = signal<number | undefined>(undefined);

/** Lists the readers, recipients and pending members of the user's own group message. */
export function SeenBy({ chatId, others }: { chatId: string; others: readonly string[] }) {
  const sequence = askedSequence.value;
  useEffect(() => () => void (askedSequence.value = undefined), []);
  if (sequence === undefined) return null;
  const watermarks = watermarksOf(chatId);
  const hasRead = others.filter((userId) => (watermarks.get(userId)?.read ?? 0) >= sequence);
  const has = others.filter((userId) => (watermarks.get(userId)?.delivered ?? 0) >= sequence);
  return (
    <Dialog title="Who has seen this" onClose={() => (askedSequence.value = undefined)}>
      <People title="Read by" userIds={hasRead} />
      <People title="Delivered to" userIds={has.filter((userId) => !hasRead.includes(userId))} />
      <People title="Not yet with" userIds={others.filter((userId) => !has.includes(userId))} />
    </Dialog>
  );
}
