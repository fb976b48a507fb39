import { hueOf, initials } from "../store/words.js";
import { Icon } from "./icon.js";

/** The avatar of a user or a group: initials on their fixed colour. */
export function Avatar(props: { id: string; name: string; size?: number; isGroup?: boolean; isOnline?: boolean }) {
  const { id, name, size = 40, isGroup = false, isOnline = false } = props;
  return (
    <span class="avatar" style={{ "--hue": hueOf(id), "--size": `${size}px` }} aria-hidden="true">
      {isGroup ? <Icon name="group" size={size * 0.5} /> : initials(name)}
      {isOnline && <span class="avatar-online" />}
    </span>
  );
}
