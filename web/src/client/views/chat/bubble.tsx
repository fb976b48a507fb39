import { useId } from "preact/hooks";

import { now } from "../../state/clock.js";
import { editOf } from "../../state/composing.js";
import { discard, retry, unblockAndRetry } from "../../state/outbox.js";
import { attempt } from "../../state/toasts.js";
import { toggleReaction, updates } from "../../state/updates.js";
import type { Bubble } from "../../store/grouping.js";
import { statusOf, type Watermarks } from "../../store/receipts.js";
import { isWaiting } from "../../store/updates.js";
import { hueOf, moment, timeOfDay } from "../../store/words.js";
import { Icon } from "../../ui/icon.js";
import { Countdown } from "./countdown.js";
import { Reactions } from "./reactions.js";
import { askedSequence } from "./seen-by.js";
import { StatusMark } from "./status-mark.js";
import { Text } from "./text.js";
import { openAt } from "./use-message-menu.js";

/** One message, or one pending send. */
export function BubbleView(props: {
  bubble: Bubble;
  isMine: boolean;
  author: string;
  senderId: string;
  isFirst: boolean;
  isGroup: boolean;
  common: Watermarks;
}) {
  const { bubble, isMine, author, senderId, isFirst, isGroup, common } = props;
  const showsAuthor = isGroup && isFirst && !isMine;
  const isMessage = bubble.kind === "message";
  const id = useId();
  const isEdited = isMessage && editOf(bubble.message.chat_id)?.sequence === bubble.message.sequence;
  const status = isMessage ? statusOf(bubble.message, common) : bubble.entry.state;
  return (
    <div
      class={`bubble ${status === "failed" ? "bubble-failed" : ""} ${isEdited ? "bubble-open" : ""}`}
      // Focusable, so that the keyboard reaches the actions of every message.
      role="article"
      aria-labelledby={`${id}-author ${id}-text`}
      tabIndex={-1}
      data-key={bubble.key}
      data-sequence={isMessage ? bubble.message.sequence : undefined}
      data-status={isMine ? status : undefined}
      // The text alone decides the direction: parts with a direction of their own do not count.
      dir="auto"
    >
      <span
        id={`${id}-author`}
        dir="auto"
        class={showsAuthor ? "author" : "visually-hidden"}
        style={showsAuthor ? { "--hue": hueOf(senderId) } : {}}
      >
        {author}
        <span class="visually-hidden">: </span>
      </span>
      <Text
        id={`${id}-text`}
        content={isMessage ? bubble.message.content : bubble.entry.content}
        contentType={isMessage ? bubble.message.content_type : "text/plain"}
      />
      <span class="meta" dir="ltr">
        {isMessage && (
          <button
            type="button"
            class="bubble-more"
            title="Message actions"
            aria-haspopup="menu"
            // The keyboard opens the menu from the message itself.
            tabIndex={-1}
            onClick={({ currentTarget }) => openAt(currentTarget.closest<HTMLElement>(".bubble") ?? currentTarget)}
          >
            <Icon name="more" size={16} />
            <span class="visually-hidden">Message actions</span>
          </button>
        )}
        {isMessage && isWaiting(updates.value, bubble.message) && (
          <span class="bubble-waiting" title="Waiting to be saved">
            <Icon name="clock" size={13} />
            <span class="visually-hidden">Waiting to be saved</span>
          </span>
        )}
        {isMessage && bubble.message.state?.edited_at && <Edited at={Date.parse(bubble.message.state.edited_at)} />}
        {isMessage && bubble.message.expires_at && <Countdown until={Date.parse(bubble.message.expires_at)} />}
        <time dateTime={new Date(bubble.at).toISOString()}>{timeOfDay(bubble.at)}</time>
        {isMine && isGroup && isMessage ? (
          <button
            type="button"
            class="status-button"
            title="Who has seen this"
            onClick={() => (askedSequence.value = bubble.message.sequence)}
          >
            <StatusMark status={status} />
          </button>
        ) : (
          isMine && <StatusMark status={status} />
        )}
      </span>
      {isMessage && (
        <Reactions
          reactions={bubble.message.state?.reactions ?? []}
          onToggle={(reaction) => toggleReaction(bubble.message, reaction)}
        />
      )}
      {!isMessage && bubble.entry.state === "failed" && (
        <span class="bubble-failure" role="alert" dir="ltr">
          {bubble.entry.error}{" "}
          {bubble.entry.remedy === undefined && (
            <button type="button" class="link" onClick={() => retry(bubble.entry)}>
              Try again
            </button>
          )}
          {bubble.entry.remedy === "unblock" && (
            <button type="button" class="link" onClick={() => void attempt(() => unblockAndRetry(bubble.entry))}>
              Unblock and send
            </button>
          )}{" "}
          <button type="button" class="link" onClick={() => discard(bubble.entry.clientMessageId)}>
            Discard
          </button>
        </span>
      )}
    </div>
  );
}

/** The mark of an edited message, with the time of its last edit. */
function Edited({ at }: { at: number }) {
  const when = moment(at, now.value);
  return (
    <span class="edited" title={`Edited ${when}`}>
      edited<span class="visually-hidden"> {when},</span>
    </span>
  );
}
