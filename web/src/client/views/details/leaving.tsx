import type { ChatSummary } from "@tidings/client";
import { useState } from "preact/hooks";

import { leave } from "../../state/chats.js";
import { attempt } from "../../state/toasts.js";
import { Button } from "../../ui/button.js";
import { Confirm } from "../../ui/dialog.js";

/** Leaves a group. Its owner transfers the ownership first. */
export function Leaving({ chat }: { chat: ChatSummary }) {
  const [isAsked, setAsked] = useState(false);
  if (chat.my_membership.role === "owner") {
    return <p class="panel-note">You own this group. To leave it, make somebody else the owner first.</p>;
  }
  return (
    <>
      <Button kind="danger" icon="leave" onClick={() => setAsked(true)}>
        Leave the group
      </Button>
      {isAsked && (
        <Confirm
          title="Leave the group?"
          text="You no longer see it, or what was said in it."
          action="Leave"
          onConfirm={() => void attempt(() => leave(chat.chat_id))}
          onClose={() => setAsked(false)}
        />
      )}
    </>
  );
}
