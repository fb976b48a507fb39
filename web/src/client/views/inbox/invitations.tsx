import { acceptInvitation, declineInvitation, invitations } from "../../state/invitations.js";
import { go } from "../../state/navigation.js";
import { attempt } from "../../state/toasts.js";
import { Avatar } from "../../ui/avatar.js";
import { Button } from "../../ui/button.js";

/** The pending invitations to groups, above the chats. */
export function Invitations() {
  if (invitations.value.length === 0) return null;
  const accept = (chatId: string) => async () => {
    await acceptInvitation(chatId);
    go({ at: "chat", chatId, panel: "messages" });
  };
  return (
    <section class="invitations" aria-label="Invitations">
      <ul>
        {invitations.value.map(({ chat_id: chatId, name, invited_by: inviter }) => (
          <li key={chatId} class="invitation">
            <Avatar id={chatId} name={name} size={36} />
            <span class="invitation-words">
              <strong>{name}</strong>
              <span class="quiet">{inviter.display_name} invites you</span>
            </span>
            <Button onClick={() => void attempt(accept(chatId))}>Join</Button>
            <Button onClick={() => void attempt(() => declineInvitation(chatId))}>Decline</Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
