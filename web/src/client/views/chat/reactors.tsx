import type { MessageWithStatus } from "@tidings/client";
import { useEffect, useState } from "preact/hooks";

import { nameOf } from "../../state/names.js";
import { loadReactors } from "../../state/updates.js";
import { inWords } from "../../store/failures.js";
import { byReaction } from "../../store/updates.js";
import { Dialog } from "../../ui/dialog.js";
import { People } from "./people.js";

/** Lists the members who reacted to a message, by reaction. */
export function Reactors({ message, onClose }: { message: MessageWithStatus; onClose: () => void }) {
  const [members, setMembers] = useState<Awaited<ReturnType<typeof loadReactors>>>();
  const [failure, setFailure] = useState<string>();
  const revision = message.state?.revision;
  useEffect(() => {
    loadReactors(message).then(setMembers, (reason: unknown) => setFailure(inWords(reason, nameOf)));
  }, [revision]);
  return (
    <Dialog title="Who reacted" onClose={onClose}>
      {members
        ? byReaction(members, message).map(({ reaction, userIds, more }) => (
            <People key={reaction} title={reaction} userIds={userIds} more={more} />
          ))
        : (failure && <p role="alert">{failure}</p>) || <p role="status">Asking the server…</p>}
    </Dialog>
  );
}
