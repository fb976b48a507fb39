import type { Me } from "@tidings/client";

import { updateMe } from "../../state/session.js";
import { attempt } from "../../state/toasts.js";
import { Blocked } from "./blocked.js";
import { Choices } from "./choices.js";

/** The audience of the user's presence, who may add the user to groups, and the blocked users. */
export function Privacy({ me }: { me: Me }) {
  return (
    <>
      <Choices
        label="Who sees when you are online"
        value={me.presence_visibility}
        options={[
          ["everyone", "Everyone", "Also people you have never written to."],
          ["contacts_only", "Contacts", "People you have listed, if they have listed you too."],
          ["nobody", "Nobody", "Not even your contacts."],
        ]}
        onChange={(visibility) => void attempt(() => updateMe({ presence_visibility: visibility }))}
      />
      <Choices
        label="Who can add you to groups"
        value={me.group_invites}
        options={[
          ["everyone", "Everyone", "You are a member at once, and can leave."],
          ["contacts", "Contacts", "People you have listed. Others send you an invitation."],
          ["nobody", "Nobody", "Everyone sends you an invitation."],
        ]}
        onChange={(setting) => void attempt(() => updateMe({ group_invites: setting }))}
      />
      <Blocked />
    </>
  );
}
