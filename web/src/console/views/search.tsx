import { signal } from "@preact/signals";

import type { Found } from "../answers";
import { AdminError, get } from "../api";
import { count } from "../format";
import { Badge, Moment } from "../parts/facts";
import { Empty, sentence } from "../parts/shown";
import { go, href } from "../route";

/** The result of a search. The query is not in the address, because it may be a phone number or the id of a user elsewhere. */
type Search =
  | { state: "none" }
  | { state: "looking" }
  | { state: "failed"; message: string }
  | { state: "found"; results: Found[] };

const search = signal<Search>({ state: "none" });

/** Finds the object of an id, a phone number, or an id at the identity provider. A user, chat or message is shown at once. */
export async function lookFor(text: string): Promise<void> {
  search.value = { state: "looking" };
  go({ view: "search" });
  try {
    const { results } = await get<{ results: Found[] }>(`/search?q=${encodeURIComponent(text)}`);
    search.value = { state: "found", results };
    const [only] = results;
    // A result for a phone number stays on the page, which shows only the last digits.
    if (only?.kind === "user" && only.phone_number === undefined) go({ view: "user", id: only.user_id });
    if (only?.kind === "chat") go({ view: "chat", id: only.chat_id });
    if (only?.kind === "message") go({ view: "message", id: only.message_id });
  } catch (error) {
    search.value = { state: "failed", message: sentence(error instanceof AdminError ? error.message : String(error)) };
  }
}

/** The search result. */
export function SearchResults() {
  return (
    <>
      <header class="view-head"><h1>Search</h1></header>
      <div aria-live="polite"><Results /></div>
    </>
  );
}

function Results() {
  const found = search.value;
  switch (found.state) {
    case "none":
      return (
        <Empty>
          Look for the id of a user, chat, message, session or connection, for a phone number like +14155550101, or for
          the id of a user at your identity provider. To answer “where is my message?”, look for its <code>msg_…</code>, or open the chat and find it in the
          timeline.
        </Empty>
      );
    case "looking":
      return <p class="quiet">Looking …</p>;
    case "failed":
      return <p class="notice notice-bad" role="alert">{found.message}</p>;
    case "found":
      if (found.results.length === 0) return <Empty>There is nothing by that name: it never was, or it is gone.</Empty>;
      return (
        <ul class="results">
          {found.results.map((result) => <li class="panel" key={result.kind}><Result found={result} /></li>)}
        </ul>
      );
  }
}

function Result({ found }: { found: Found }) {
  switch (found.kind) {
    case "user":
      return (
        <>
          <Badge>user</Badge> <a href={href({ view: "user", id: found.user_id })}>{found.display_name}</a>{" "}
          <span class="quiet">{found.phone_number ?? ""}</span>
        </>
      );
    case "chat":
      return (
        <>
          <Badge>{found.type} chat</Badge>{" "}
          <a href={href({ view: "chat", id: found.chat_id })}>{found.name ?? found.chat_id}</a>{" "}
          <span class="quiet">{count(found.member_count, "member")}</span>
        </>
      );
    case "message":
      return (
        <>
          <Badge>message</Badge> <a href={href({ view: "message", id: found.message_id })}>{found.message_id}</a>{" "}
          <span class="quiet"><Moment at={found.created_at} /></span>
        </>
      );
    case "session":
      return (
        <>
          <Badge>session</Badge> of <a href={href({ view: "user", id: found.user_id })}>{found.display_name}</a>{" "}
          <span class="quiet">on device {found.device_id}</span>
        </>
      );
    case "connection":
      return (
        <>
          <Badge>connection</Badge> of <a href={href({ view: "user", id: found.user_id })}>{found.display_name}</a>{" "}
          <span class="quiet">at gateway {found.gateway} since <Moment at={found.connected_at} /></span>
        </>
      );
  }
}
