import { useEffect } from "preact/hooks";

import { chooseTheme } from "../shared/theme-choice";
import { Code } from "./code";
import { prelude } from "./curl";
import { Frame } from "./frame";
import { Navigation } from "./navigation";
import { RestOperation } from "./operation";
import { Prose } from "./prose";
import type { FrameEntry } from "./reference";
import { clientFrames, navigation, restGroups, serverFrames } from "./reference";
import type { AsyncApi, OpenApi } from "./spec";
import { CloseCodes, ErrorCodes, Handshake } from "./tables";

/** The whole reference, from both documents. */
export function Reference({ openapi, asyncapi }: { openapi: OpenApi; asyncapi: AsyncApi }) {
  useEffect(() => {
    // The target of the fragment did not exist yet when the browser looked for it.
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, []);
  return (
    <>
      <a class="skip" href="#overview">
        Skip to the reference
      </a>
      <Top version={openapi.info.version} />
      <Navigation groups={navigation(openapi, asyncapi)} />
      <main>
        <section id="overview" class="page" aria-labelledby="overview-title">
          <h1 id="overview-title">The contract with clients</h1>
          <Prose text={openapi.info.description ?? ""} />
        </section>
        <Commands />
        <section id="websocket" class="page" aria-labelledby="websocket-title">
          <h2 id="websocket-title">WebSocket</h2>
          <Prose text={asyncapi.info.description ?? ""} />
        </section>
        <Handshake document={asyncapi} />
        {restGroups(openapi).map((group) => (
          <section key={group.name} id={`tag-${group.name}`} aria-labelledby={`tag-${group.name}-title`}>
            <header class="page">
              <h2 id={`tag-${group.name}-title`}>{group.name}</h2>
              <p>{group.description}</p>
            </header>
            {group.entries.map((entry) => (
              <RestOperation key={entry.id} document={openapi} entry={entry} />
            ))}
          </section>
        ))}
        <Frames document={asyncapi} from="client" frames={clientFrames(asyncapi)} />
        <Frames document={asyncapi} from="server" frames={serverFrames(asyncapi)} />
        <ErrorCodes document={asyncapi} />
        <CloseCodes document={asyncapi} />
      </main>
    </>
  );
}

/** What the commands of the operations build on. */
function Commands() {
  return (
    <section id="commands" class="entry" aria-labelledby="commands-title">
      <div class="told">
        <h2 id="commands-title">First commands</h2>
        <p>
          Paste these into a shell (bash or zsh) once. They sign up Ada, Bob and Cleo, open two chats, and set the variables
          of all commands on this page: <code>$TOKEN</code> is Ada's access token. Then each command works as it is. Run
          them again for new people, for example after a command that signs out.
        </p>
        <p>
          They need a server of <code>tidings serve --dev</code>, which accepts the code <code>000000</code>. For another
          one, set <code>TOKEN</code> to an access token of yours, and put your own ids into the commands.
        </p>
      </div>
      <div class="shown">
        <Code label="First commands" language="shell" text={prelude(location.origin)} />
      </div>
    </section>
  );
}

function Frames({ document, from, frames }: { document: AsyncApi; from: "client" | "server"; frames: FrameEntry[] }) {
  return (
    <section id={`frames-${from}`} aria-labelledby={`frames-${from}-title`}>
      <header class="page">
        <h2 id={`frames-${from}-title`}>Frames of the {from}</h2>
      </header>
      {frames.map((frame) => (
        <Frame key={frame.id} document={document} frame={frame} from={from} />
      ))}
    </section>
  );
}

function Top({ version }: { version: string }) {
  const other = () => chooseTheme(document.documentElement.dataset["theme"] === "dark" ? "light" : "dark");
  return (
    <header class="top">
      <a class="brand" href="/">
        <img src="/assets/icon.svg" alt="" width="22" height="22" /> Tidings
      </a>
      <span class="note">API {version}</span>
      <span class="links">
        <a href="/openapi.json">OpenAPI</a>
        <a href="/asyncapi.json">AsyncAPI</a>
        <button type="button" class="plain" onClick={other}>
          Light or dark
        </button>
      </span>
    </header>
  );
}
