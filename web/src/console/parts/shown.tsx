import type { ComponentChildren } from "preact";

import type { Answer } from "../answer";

/** Renders a response once it has arrived; until then, or after a failure, a message. */
export function Shown<T>(props: { of: Answer<T>; retry: () => void; children: (value: T) => ComponentChildren }) {
  const { of: answer, retry, children } = props;
  switch (answer.state) {
    case "waiting":
      return <p class="quiet" role="status">Looking …</p>;
    case "failed":
      return (
        <div class="notice notice-bad" role="alert">
          <p>{sentence(answer.message)}</p>
          {answer.status === 404 ? null : <button class="button" type="button" onClick={retry}>Try again</button>}
        </div>
      );
    case "answered":
      return <>{children(answer.value)}</>;
  }
}

/** The placeholder for an empty list. */
export function Empty(props: { children: ComponentChildren }) {
  return <p class="empty">{props.children}</p>;
}

/** A message of the server as a sentence. */
export function sentence(message: string): string {
  const end = /[.!?]$/.test(message) ? "" : ".";
  return message.charAt(0).toUpperCase() + message.slice(1) + end;
}
