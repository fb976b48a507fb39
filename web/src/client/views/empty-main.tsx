import { chats, isInboxKnown } from "../state/inbox.js";
import { overlay } from "../state/navigation.js";
import { Button } from "../ui/button.js";
import { Icon } from "../ui/icon.js";

/** The placeholder while no chat is open. */
export function EmptyMain() {
  const isNew = isInboxKnown.value && chats.value.length === 0;
  return (
    <main class="main empty-main">
      <span class="empty-picture">
        <Icon name="compose" size={28} />
      </span>
      <h1>{isNew ? "Say hello to somebody" : "Choose a chat"}</h1>
      <p>
        {isNew ? (
          "All you need is their phone number."
        ) : (
          <>
            Press <kbd>Ctrl K</kbd> to find one by name.
          </>
        )}
      </p>
      <Button kind={isNew ? "primary" : "plain"} icon="plus" onClick={() => (overlay.value = "newChat")}>
        New chat
      </Button>
    </main>
  );
}
