import type { Me } from "@tidings/client";
import { useState } from "preact/hooks";

import { updateMe } from "../../state/session.js";
import { attempt, tell } from "../../state/toasts.js";
import { Avatar } from "../../ui/avatar.js";
import { Button } from "../../ui/button.js";
import { Field } from "../../ui/field.js";

/** The profile that other users see. */
export function Profile({ me }: { me: Me }) {
  const [name, setName] = useState(me.display_name);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (await attempt(() => updateMe({ display_name: name.trim() }))) tell("Your name is changed.");
  };
  return (
    <form class="card card-form" onSubmit={submit}>
      <div class="profile-face">
        <Avatar id={me.user_id} name={name} size={72} />
        {me.phone_number && (
          <p>
            <strong>{me.phone_number}</strong>
            <br />
            <span class="quiet">Nobody else is ever told this number.</span>
          </p>
        )}
      </div>
      <Field
        label="Your name"
        maxLength={64}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        required
      />
      <div class="card-actions">
        <Button kind="primary" type="submit" disabled={name.trim() === "" || name.trim() === me.display_name}>
          Save
        </Button>
      </div>
    </form>
  );
}
