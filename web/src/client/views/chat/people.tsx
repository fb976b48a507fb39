import { nameOf } from "../../state/names.js";
import { Avatar } from "../../ui/avatar.js";

/** Users under a title, and the number of further ones; nothing without users. */
export function People(props: { title: string; userIds: readonly string[]; more?: number }) {
  const { title, userIds, more = 0 } = props;
  if (userIds.length + more === 0) return null;
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
        {more > 0 && <li class="person">{userIds.length > 0 ? `and ${more} more` : peopleCount(more)}</li>}
      </ul>
    </section>
  );
}

function peopleCount(count: number): string {
  return count === 1 ? "1 person" : `${count} people`;
}
