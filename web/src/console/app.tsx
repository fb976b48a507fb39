import { useEffect, useRef } from "preact/hooks";

import { chooseTheme, themeChoice, type ThemeChoice } from "../shared/theme-choice";
import { signOut, token } from "./api";
import { Confirmation } from "./parts/confirm";
import { href, route, type Route } from "./route";
import { Audit } from "./views/audit";
import { Chat } from "./views/chat";
import { Deliveries } from "./views/deliveries";
import { Message } from "./views/message";
import { Nodes } from "./views/nodes";
import { Overview } from "./views/overview";
import { SearchResults, lookFor } from "./views/search";
import { SignIn } from "./views/sign-in";
import { User } from "./views/user";

/** The console: its frame, and in it the view of the current route. */
export function App() {
  if (token.value === null) return <SignIn />;
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={href({ view: "overview" })}>
          <img src="/assets/icon.svg" width="24" height="24" alt="" /> Tidings <span class="quiet">console</span>
        </a>
        <Search />
        <Theme />
        <button class="button" type="button" onClick={signOut}>Sign out</button>
      </header>
      <nav class="side" aria-label="Console">
        <Link to={{ view: "overview" }}>Overview</Link>
        <Link to={{ view: "nodes" }}>Nodes</Link>
        <Link to={{ view: "search" }}>Search</Link>
        <Link to={{ view: "deliveries" }}>Deliveries</Link>
        <Link to={{ view: "audit" }}>Audit</Link>
      </nav>
      <main id="main" class="main" tabIndex={-1}>
        <View at={route.value} />
      </main>
      <Confirmation />
    </div>
  );
}

/** The address selects a view, so the skip link moves the focus itself instead of changing the address. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function View({ at }: { at: Route }) {
  switch (at.view) {
    case "overview":
      return <Overview />;
    case "nodes":
      return <Nodes />;
    case "search":
      return <SearchResults />;
    case "user":
      return <User key={at.id} id={at.id} />;
    case "chat":
      return <Chat key={at.id} id={at.id} />;
    case "message":
      return <Message key={at.id} id={at.id} />;
    case "deliveries":
      return <Deliveries />;
    case "audit":
      return <Audit />;
  }
}

function Link({ to, children }: { to: Route; children: string }) {
  const isFound = route.value.view === "user" || route.value.view === "chat" || route.value.view === "message";
  const isHere = route.value.view === to.view || (to.view === "search" && isFound);
  return <a href={href(to)} aria-current={isHere ? "page" : undefined}>{children}</a>;
}

function Search() {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    if (text !== "") void lookFor(text);
  };
  return (
    <form class="search" role="search" onSubmit={submit}>
      <input
        ref={field}
        type="search"
        aria-label="Search by id or phone number"
        placeholder="User, chat, message, session, connection, phone number or your own user id"
        autocomplete="off"
        spellcheck={false}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}

function Theme() {
  return (
    <select
      class="theme"
      aria-label="Theme"
      value={themeChoice()}
      onChange={(event) => chooseTheme(event.currentTarget.value as ThemeChoice)}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}
