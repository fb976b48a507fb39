import type { ChatSummary, Me } from "@tidings/client";
import { useEffect, useMemo, useState } from "preact/hooks";

import { loadChat, members } from "../../state/chats.js";
import { unlessUnreachable } from "../../state/unless-unreachable.js";
import { inbox } from "../../state/inbox.js";
import { loadReceipts } from "../../state/receipts.js";
import { Composer } from "./composer.js";
import { ChatHeader } from "./header.js";
import { Log } from "./log.js";
import { LogModel } from "./log-model.js";
import { MessageActions } from "./message-actions.js";
import { Reporting } from "./reporting.js";
import { SeenBy } from "./seen-by.js";

/** One chat: header, log and composer. */
export function Chat({ chatId, me }: { chatId: string; me: Me }) {
  const chat = inbox.value.get(chatId);
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    void unlessUnreachable(() => loadChat(chatId)).then(() => setMissing(!inbox.peek().has(chatId)));
    // A chat without messages has no receipts.
    if (inbox.peek().get(chatId)?.head_sequence) void unlessUnreachable(() => loadReceipts(chatId));
  }, [chatId]);

  if (chat) return <OpenChat chat={chat} me={me} />;
  return (
    <main class="main empty-main">
      {isMissing ? <h1>This chat is not here</h1> : <p role="status">Opening the chat…</p>}
      {isMissing && <p>It may have ended, or you are no longer a member.</p>}
    </main>
  );
}

function OpenChat({ chat, me }: { chat: ChatSummary; me: Me }) {
  const model = useMemo(() => new LogModel(chat.chat_id), [chat.chat_id]);
  useEffect(() => void model.open(), [model]);
  const others = useOthers(chat, me);
  return (
    <main class="main chat" aria-label="Chat">
      <ChatHeader chat={chat} />
      <Log model={model} chat={chat} me={me} others={others} />
      <Composer chat={chat} onSend={() => void model.toNewest()} />
      <MessageActions model={model} />
      <Reporting />
      {chat.type === "group" && <SeenBy chatId={chat.chat_id} others={others} />}
    </main>
  );
}

/** The ids of the known other members. */
function useOthers(chat: ChatSummary, me: Me): string[] {
  const known = members.value.get(chat.chat_id) ?? chat.other_participants;
  return useMemo(
    () => known.map((user) => user.user_id).filter((userId) => userId !== me.user_id),
    [known, me.user_id],
  );
}
