import { useState } from "preact/hooks";

import { client } from "../sdk.js";
import { attempt, tell } from "../state/toasts.js";
import { RequestKeys } from "../store/request-keys.js";
import { Button } from "../ui/button.js";
import { Dialog } from "../ui/dialog.js";
import { Field } from "../ui/field.js";
import { Select } from "../ui/select.js";

const REASONS = [
  ["spam", "Spam"],
  ["abuse", "Abuse"],
  ["illegal", "Illegal content"],
  ["other", "Something else"],
] as const;

/** What a report is about. The operators get a copy of a reported message. */
export type ReportSubject = { readonly message_id: string } | { readonly user_id: string } | { readonly chat_id: string };

/** Reports a message, a user or a chat to the operators of the service. */
export function Report({ what, name, onClose }: { what: ReportSubject; name: string; onClose: () => void }) {
  const [reason, setReason] = useState<(typeof REASONS)[number][0]>("spam");
  const [comment, setComment] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [keys] = useState(() => new RequestKeys());
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const text = comment.trim();
    const report = { ...what, reason, ...(text ? { comment: text } : {}) };
    if (await attempt(() => client.api.report(report, keys.of(report)))) {
      onClose();
      tell("The operators of this service have your report. Nobody else is told.");
    }
    setBusy(false);
  };
  return (
    <Dialog title={`Report ${name}`} onClose={onClose}>
      <form onSubmit={submit}>
        <p class="dialog-text">
          {"message_id" in what
            ? "The operators of this service get a copy of the message and the name of its sender."
            : "The operators of this service see whom or what you report, and no messages."}
        </p>
        <Select label="Reason" value={reason} options={REASONS} onChange={setReason} />
        <Field
          label="Comment (optional)"
          maxLength={1000}
          value={comment}
          onInput={(event) => setComment(event.currentTarget.value)}
        />
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="danger" type="submit" disabled={isBusy}>
            Report
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
