import { useState } from "preact/hooks";

import { Code } from "./code.js";
import { Frame } from "./frame.js";
import { Phone } from "./phone.js";

/** The sign-in: a phone number, then the code that was sent to it. */
export function SignIn({ why }: { why: string | undefined }) {
  const [phoneNumber, setPhoneNumber] = useState("");
  const [isAsked, setAsked] = useState(false);
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
