import { discard, retry, unblockAndRetry } from "../../state/outbox.js";
import { attempt } from "../../state/toasts.js";
import type { Bubble } from "../../store/grouping.js";
import { statusOf, type Watermarks } from "../../store/receipts.js";
import { hueOf, timeOfDay } from "../../store/words.js";
import { Icon } from "../../ui/icon.js";
import { Countdown } from "./countdown.js";
import { reportedMessage } from "./reporting.js";
import { askedSequence } from "./seen-by.js";
import { StatusMark } from "./status-mark.js";
import { Text } from "./text.js";

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
  const status = isMessage ? statusOf(bubble.message, common) : bubble.entry.state;
  return (
    <div
      class={`bubble ${status === "failed" ? "bubble-failed" : ""}`}
      data-key={bubble.key}
      data-sequence={isMessage ? bubble.message.sequence : undefined}
      data-status={isMine ? status : undefined}
      // The text alone decides the direction: parts with a direction of their own do not count.
      dir="auto"
    >
      <span dir="auto" class={showsAuthor ? "author" : "visually-hidden"} style={showsAuthor ? { "--hue": hueOf(senderId) } : {}}>
        {author}
        <span class="visually-hidden">: </span>
      </span>
      <Text
        content={isMessage ? bubble.message.content : bubble.entry.content}
        contentType={isMessage ? bubble.message.content_type : "text/plain"}
      />
      <span class="meta" dir="ltr">
        {isMessage && !isMine && (
          <button
            type="button"
            class="bubble-report"
            title="Report this message"
            onClick={() => (reportedMessage.value = { messageId: bubble.message.message_id, author })}
          >
            <Icon name="warning" size={14} />
            <span class="visually-hidden">Report this message</span>
          </button>
        )}
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
