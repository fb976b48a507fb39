import type { Member } from "@tidings/client";

import { Icon } from "../../ui/icon.js";
import { Select } from "../../ui/select.js";

/** The actions on a member. */
export type MemberAction = "message" | "promote" | "demote" | "handOver" | "remove";

/** The actions that the user's role allows: the owner all, an admin the removal of ordinary members. */
export function MemberMenu(props: {
  member: Member;
  myRole: Member["role"];
  onChoose: (action: MemberAction) => void;
}) {
  const { member, myRole, onChoose } = props;
  const actions: [MemberAction, string][] = [["message", "Message"]];
  if (myRole === "owner") {
    actions.push(member.role === "admin" ? ["demote", "Make a plain member"] : ["promote", "Make an admin"]);
    actions.push(["handOver", "Make the owner"]);
  }
  if (myRole === "owner" || (myRole === "admin" && member.role === "member")) actions.push(["remove", "Remove"]);
  return (
    <span class="menu">
      <Icon name="more" />
      <Select<MemberAction | "none">
        label={`Actions for ${member.display_name}`}
        value="none"
        options={[["none", "Choose…"], ...actions]}
        onChange={(action) => action !== "none" && onChoose(action)}
      />
    </span>
  );
}
