import { nameOf } from "../../state/names.js";
import { Avatar } from "../../ui/avatar.js";

/** Users under a title; nothing without users. */
export function People({ title, userIds }: { title: string; userIds: readonly string[] }) {
  if (userIds.length === 0) return null;
  return (
    <section class="seen">
      <h3>{title}</h3>
      <ul class="people" aria-label={title}>
        {userIds.map((userId) => (
          <li key={userId} class="person">
            <Avatar id={userId} name={nameOf(userId)} size={32} />
            <span>{nameOf(userId)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
