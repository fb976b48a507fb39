import { useState } from "preact/hooks";

import { isGiven } from "../../sdk.js";
import { Code } from "./code.js";
import { Frame } from "./frame.js";
import { Phone } from "./phone.js";
import { useSite } from "./use-site.js";

/** The sign-in: a phone number, then the code that was sent to it; or a hint, if the server takes none. */
export function SignIn({ why }: { why: string | undefined }) {
  const [phoneNumber, setPhoneNumber] = useState("");
  const [isAsked, setAsked] = useState(false);
  const site = useSite();
  if (isGiven || site?.phone === false) {
    return (
      <Frame>
        <section class="step">
          {why && <p class="step-why">{why}</p>}
          <h1>Sign in</h1>
          <p class="step-text">You sign in with your application. Open the chat from there.</p>
        </section>
      </Frame>
    );
  }
  if (site === undefined) return <Frame>{null}</Frame>;
  return (
    <Frame>
      {isAsked ? (
        <Code phoneNumber={phoneNumber} onBack={() => setAsked(false)} />
      ) : (
        <Phone
          why={why}
          initial={phoneNumber}
          onAsked={(asked) => {
            setPhoneNumber(asked);
            setAsked(true);
          }}
        />
      )}
    </Frame>
  );
}
