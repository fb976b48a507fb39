import type { ChatSummary } from "@tidings/client";
import { useState } from "preact/hooks";

import { leave } from "../../state/chats.js";
import { attempt } from "../../state/toasts.js";
import { Button } from "../../ui/button.js";
import { Confirm } from "../../ui/dialog.js";

/** Leaves a group. Its owner transfers the ownership first, or deletes the group as its last member. */
export function Leaving({ chat }: { chat: ChatSummary }) {
  const [isAsked, setAsked] = useState(false);
  const isLast = chat.member_count === 1;
  if (chat.my_membership.role === "owner" && !isLast) {
    return <p class="panel-note">You own this group. To leave it, make somebody else the owner first.</p>;
  }
  return (
    <>
      <Button kind="danger" icon="leave" onClick={() => setAsked(true)}>
        {isLast ? "Delete the group" : "Leave the group"}
      </Button>
      {isAsked && (
        <Confirm
          title={isLast ? "Delete the group?" : "Leave the group?"}
          text={
            isLast
              ? "You are its last member. The group and everything that was said in it are deleted."
              : "You no longer see it, or what was said in it."
          }
          action={isLast ? "Delete" : "Leave"}
          onConfirm={() => void attempt(() => leave(chat.chat_id))}
          onClose={() => setAsked(false)}
        />
      )}
    </>
  );
}
