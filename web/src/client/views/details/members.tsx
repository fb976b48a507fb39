import type { ChatSummary, Me, Member } from "@tidings/client";
import { useEffect, useState } from "preact/hooks";

import { attemptToReach } from "../../state/blocks.js";
import { addMember, changeRole, openDirectChat, removeMember } from "../../state/chats.js";
import { go } from "../../state/navigation.js";
import { presences, watchAlso } from "../../state/people.js";
import { attempt } from "../../state/toasts.js";
import { Avatar } from "../../ui/avatar.js";
import { Button } from "../../ui/button.js";
import { Confirm, Dialog } from "../../ui/dialog.js";
import { PeoplePicker } from "../new-chat/people-picker.js";
import { MemberMenu, type MemberAction } from "./member-menu.js";

const RANKS: Record<Member["role"], number> = { owner: 0, admin: 1, member: 2 };

/** The members of a group, and the actions on them. */
export function Members(props: { chat: ChatSummary; me: Me; members: readonly Member[]; canAdd: boolean }) {
  const { chat, me, members, canAdd } = props;
  const [isAdding, setAdding] = useState(false);
  const [asked, setAsked] = useState<{ member: Member; action: "remove" | "handOver" }>();
  useWatched(members, me);
  const ordered = members.toSorted(
    (a, b) => RANKS[a.role] - RANKS[b.role] || a.display_name.localeCompare(b.display_name),
  );

  const act = (member: Member, action: MemberAction) => {
    const { user_id: userId } = member;
    if (action === "remove" || action === "handOver") setAsked({ member, action });
    else if (action === "message") {
      const open = async () => go({ at: "chat", chatId: await openDirectChat(userId), panel: "messages" });
      void attemptToReach(userId, open);
    } else void attempt(() => changeRole(chat.chat_id, userId, action === "promote" ? "admin" : "member"));
  };

  return (
    <section class="card members" aria-label="Members">
      <header class="card-header">
        <h3>{chat.member_count === 1 ? "1 member" : `${chat.member_count} members`}</h3>
        {canAdd && (
          <Button icon="plus" onClick={() => setAdding(true)}>
            Add
          </Button>
        )}
      </header>
      <ul>
        {ordered.map((member) => (
          <li key={member.user_id} class="member">
            <Avatar
              id={member.user_id}
              name={member.display_name}
              size={36}
              isOnline={presences.value.get(member.user_id)?.status === "online"}
            />
            <span class="member-name">
              <bdi>{member.display_name}</bdi>
              {member.user_id === me.user_id && " (you)"}
            </span>
            {member.role !== "member" && <span class={`role role-${member.role}`}>{member.role}</span>}
            {member.user_id !== me.user_id && (
              <MemberMenu member={member} myRole={chat.my_membership.role} onChoose={(action) => act(member, action)} />
            )}
          </li>
        ))}
      </ul>
      {isAdding && (
        <Dialog title="Add members" onClose={() => setAdding(false)}>
          <PeoplePicker
            autofocus
            label="Name or phone number"
            exclude={members.map((member) => member.user_id)}
            onPick={(user) => void attempt(() => addMember(chat.chat_id, user.user_id))}
          />
        </Dialog>
      )}
      {asked && <Ask chat={chat} {...asked} onClose={() => setAsked(undefined)} />}
    </section>
  );
}

function Ask(props: { chat: ChatSummary; member: Member; action: "remove" | "handOver"; onClose: () => void }) {
  const { chat, member, action, onClose } = props;
  const isRemoval = action === "remove";
  const confirm = () => {
    onClose();
    void attempt(() =>
      isRemoval ? removeMember(chat.chat_id, member.user_id) : changeRole(chat.chat_id, member.user_id, "owner"),
    );
  };
  return (
    <Confirm
      title={isRemoval ? `Remove ${member.display_name}?` : `Make ${member.display_name} the owner?`}
      text={
        isRemoval
          ? "They no longer see this group or what is said in it."
          : "You become an admin. Only the new owner can give the group back."
      }
      action={isRemoval ? "Remove" : "Hand over"}
      onConfirm={confirm}
      onClose={onClose}
    />
  );
}

/** Subscribes to the presence of the members while they are shown. */
function useWatched(members: readonly Member[], me: Me): void {
  const ids = members.map((member) => member.user_id).filter((userId) => userId !== me.user_id);
  useEffect(() => watchAlso(ids), [ids.join()]);
}
