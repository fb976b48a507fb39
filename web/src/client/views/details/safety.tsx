import type { ChatSummary, User } from "@tidings/client";
import { useEffect, useState } from "preact/hooks";

import { block, blocked, loadBlocks, unblock } from "../../state/blocks.js";
import { attempt } from "../../state/toasts.js";
import { unlessUnreachable } from "../../state/unless-unreachable.js";
import { chatName } from "../../store/inbox.js";
import { Button } from "../../ui/button.js";
import { Confirm } from "../../ui/dialog.js";
import { Report } from "../report.js";

/** Blocks the other member of a direct chat, and reports them or a group. */
export function Safety({ chat }: { chat: ChatSummary }) {
  const [isReporting, setReporting] = useState(false);
  const other = chat.type === "direct" ? chat.other_participants[0] : undefined;
  return (
    <section class="panel-actions" aria-label="Safety">
      {other && <Block user={other} />}
      <Button kind="danger" icon="warning" onClick={() => setReporting(true)}>
        Report
      </Button>
      {isReporting && (
        <Report
          what={other ? { user_id: other.user_id } : { chat_id: chat.chat_id }}
          name={chatName(chat)}
          onClose={() => setReporting(false)}
        />
      )}
    </section>
  );
}

function Block({ user }: { user: User }) {
  useEffect(() => void unlessUnreachable(loadBlocks), []);
  const [isAsked, setAsked] = useState(false);
  const isBlocked = blocked.value?.some((one) => one.user_id === user.user_id);
  if (isBlocked === undefined) return null;
  if (isBlocked) return <Button onClick={() => void attempt(() => unblock(user.user_id))}>Unblock</Button>;
  return (
    <>
      <Button kind="danger" onClick={() => setAsked(true)}>
        Block
      </Button>
      {isAsked && (
        <Confirm
          title={`Block ${user.display_name}?`}
          text="Neither of you can write to the other here, and they do not see when you are online. They are not told."
          action="Block"
          onConfirm={() => {
            setAsked(false);
            void attempt(() => block(user));
          }}
          onClose={() => setAsked(false)}
        />
      )}
    </>
  );
}
