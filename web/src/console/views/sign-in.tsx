import { useState } from "preact/hooks";

import { AdminError, signIn } from "../api";
import { sentence } from "../parts/shown";

/** The sign-in of an operator with their token. */
export function SignIn() {
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem("token") as HTMLInputElement;
    setBusy(true);
    try {
      await signIn(field.value.trim());
    } catch (error) {
      const isWrong = error instanceof AdminError && error.status === 401;
      setFailure(isWrong ? "This is no token of an operator here." : sentence(String((error as Error).message)));
      field.select();
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <img src="/assets/icon.svg" width="40" height="40" alt="" />
        <h1>Tidings console</h1>
        <label for="token">Admin token</label>
        <input
          id="token"
          name="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          autofocus
          aria-describedby="token-help token-failure"
          aria-invalid={failure !== null}
        />
        <p id="token-failure" class="field-failure" role="alert">{failure}</p>
        <button class="button button-strong" type="submit" disabled={busy}>Sign in</button>
        <p id="token-help" class="quiet">
          An admin gives it to you with <code>tidings admin operator add</code>. That of <code>root</code> is in{" "}
          <code>admin.json</code> in the data directory of this process. This tab forgets it when it is closed.
        </p>
      </form>
    </main>
  );
}
