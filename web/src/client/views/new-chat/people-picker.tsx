import type { User } from "@tidings/client";
import { useEffect, useMemo, useState } from "preact/hooks";

import { contacts, findByPhone, loadContacts } from "../../state/contacts.js";
import { unlessUnreachable } from "../../state/unless-unreachable.js";
import { chats } from "../../state/inbox.js";
import { me } from "../../state/session-state.js";
import { inWords } from "../../store/failures.js";
import { Avatar } from "../../ui/avatar.js";
import { Button } from "../../ui/button.js";
import { Field } from "../../ui/field.js";

/** Chooses a user: a known one by name, or any by phone number. */
export function PeoplePicker(props: {
  label: string;
  exclude: readonly string[];
  onPick: (user: User) => void;
  autofocus?: boolean;
}) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<User>();
  const [failure, setFailure] = useState<string>();
  useEffect(() => void unlessUnreachable(loadContacts), []);
  const known = useKnown(props.exclude);

  const phone = text.replace(/[\s()\-./]/g, "");
  const isPhone = /^\+?\d{6,15}$/.test(phone);
  const matches = known.filter((user) => user.display_name.toLowerCase().includes(text.trim().toLowerCase()));

  const find = async () => {
    setFailure(undefined);
    try {
      const user = await findByPhone(phone);
      if (user) setFound(user);
      else setFailure("Nobody here has this number.");
    } catch (problem) {
      setFailure(inWords(problem));
    }
  };
  const pick = (user: User) => {
    setText("");
    setFound(undefined);
    props.onPick(user);
  };

  return (
    <div class="picker">
      <Field
        label={props.label}
        placeholder="Ada, or +1 415 555 0100"
        autocomplete="off"
        value={text}
        error={failure}
        autofocus={props.autofocus ?? false}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setFound(undefined);
          setFailure(undefined);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          if (found) pick(found);
          else if (isPhone) void find();
          else if (matches[0]) pick(matches[0]);
        }}
      />
      {isPhone && !found && (
        <Button icon="search" onClick={() => void find()}>
          Find {phone}
        </Button>
      )}
      <ul class="people">
        {(found ? [found] : isPhone ? [] : matches).map((user) => (
          <li key={user.user_id}>
            <button
              type="button"
              class="person"
              disabled={user.user_id === me.value?.user_id}
              onClick={() => pick(user)}
            >
              <Avatar id={user.user_id} name={user.display_name} size={36} />
              <span dir="auto">{user.display_name}</span>
              {user.user_id === me.value?.user_id && <span class="person-note">That is you</span>}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Contacts and direct-chat partners, by name. */
function useKnown(exclude: readonly string[]): User[] {
  const [listed, all] = [contacts.value, chats.value];
  return useMemo(() => {
    const people = [...(listed ?? []), ...all.flatMap((chat) => chat.other_participants)];
    const byId = new Map(people.filter((user) => !exclude.includes(user.user_id)).map((user) => [user.user_id, user]));
    return [...byId.values()].sort((a, b) => a.display_name.localeCompare(b.display_name));
  }, [listed, all, exclude.join()]);
}
