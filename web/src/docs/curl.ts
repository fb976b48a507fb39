import type { RestEntry } from "./reference";
import { json } from "./reference";

/** The values of the documents that a server makes, by the variable of {@link prelude} that stands for the real one. */
export const VARIABLES: Readonly<Record<string, string>> = {
  ADA: "user_01K9D2ZT5QW4N7XH8TB5CN0ADA",
  BOB: "user_01K9D31E8ZR6V2M9QK3PFS0B0B",
  CLEO: "user_01K9D33S2KG8Y5T1WD7MJXC1E0",
  CHAT: "chat_01K9D36Y4MC2G8JT5XN7D1RECT",
  GROUP: "chat_01K9D3A7PBQ9S4WZ6HK2B0ATSX",
  BOBS_GROUP: "chat_01K9D3D4ZXR7T2VB5NM8REGATT",
  MESSAGE: "msg_01K9D36Z8HE5T1RV7MN3MSG001",
  BOBS_MESSAGE: "msg_01K9D37Q2WB8X4KC6PF9MSG002",
  OTHER_SESSION: "sess_01K9D3B1FYK8P2VR6XT4SESS0B",
  REFRESH_TOKEN: "Jb3rVt8KqX2mZs7nYpWc4hT9",
};

/** Ada's phone and laptop. Clients choose the ids of devices. */
const PHONE = "5b0f6c1e-3a8d-4f27-9c64-2e7d1b9a8f30";
const LAPTOP = "c47d2e90-6f15-4b38-a1c9-8d03f5e6b72a";

/** Bob invites Ada, who lets nobody add her to groups. */
const INVITATION = `call "$TOKEN" /users/me '{"group_invites":"nobody"}' PATCH > /dev/null
BOBS_GROUP=$(call "$BOBS_TOKEN" /chats '{"type":"group","name":"Regatta","member_ids":["'"$ADA"'"]}' | field chat_id)`;

/**
 * Commands that an operation needs before its own, in addition to {@link prelude}. `OPERATION/EXAMPLE` is for one example
 * of an operation.
 */
const PREPARATIONS: Readonly<Record<string, string>> = {
  verify_otp: `call "" /auth/request-otp '{"phone_number":"+14155550101"}' > /dev/null`,
  revoke_session: `OTHER_SESSION=$(sign_in "$ADAS_NUMBER" Ada ${LAPTOP} | field session_id)`,
  change_role: `call "$TOKEN" "/chats/$GROUP/members" '{"user_id":"'"$CLEO"'"}' > /dev/null`,
  remove_member: `call "$TOKEN" "/chats/$GROUP/members" '{"user_id":"'"$CLEO"'"}' > /dev/null`,
  "add_member/invited": `call "$CLEOS_TOKEN" /users/me '{"group_invites":"nobody"}' PATCH > /dev/null`,
  leave_chat: `call "$TOKEN" "/chats/$GROUP/members/$BOB" '{"role":"owner"}' PATCH > /dev/null`,
  remove_reaction: `call "$TOKEN" "/chats/$CHAT/messages/2/reactions/%F0%9F%91%8D" '{}' PUT > /dev/null`,
  invitations: INVITATION,
  accept_invitation: INVITATION,
  decline_invitation: INVITATION,
};

/**
 * Commands for a new server, before those of the operations: they sign up three people and open two chats, and set the
 * variables. Each run makes new people, so it can be repeated after an example that has signed out or deleted something.
 */
export function prelude(origin: string): string {
  return `API="${origin}/api/v1"
call() { # token, path, body, method
  curl -s "$API$2" -H "Authorization: Bearer $1" -H "Content-Type: application/json" \${3:+-d"$3"} \${4:+-X"$4"}
}
field() { grep -o "\\"$1\\":\\"[^\\"]*\\"" | head -n 1 | cut -d '"' -f 4; }
uuid() { uuidgen 2> /dev/null || cat /proc/sys/kernel/random/uuid; }
sign_in() { # phone number, name, device
  call "" /auth/request-otp "{\\"phone_number\\":\\"$1\\"}" > /dev/null
  call "" /auth/verify-otp "{\\"phone_number\\":\\"$1\\",\\"otp\\":\\"000000\\",\\"device_id\\":\\"$3\\",\\"display_name\\":\\"$2\\"}"
}
number() { printf '+4179%07d' $(((RANDOM * 32768 + RANDOM) % 10000000)); }

ADAS_NUMBER=$(number)
signed_in=$(sign_in "$ADAS_NUMBER" Ada ${PHONE})
TOKEN=$(echo "$signed_in" | field access_token)
REFRESH_TOKEN=$(echo "$signed_in" | field refresh_token)
BOBS_TOKEN=$(sign_in "$(number)" Bob "$(uuid)" | field access_token)
CLEOS_TOKEN=$(sign_in "$(number)" Cleo "$(uuid)" | field access_token)
ADA=$(call "$TOKEN" /users/me | field user_id)
BOB=$(call "$BOBS_TOKEN" /users/me | field user_id)
CLEO=$(call "$CLEOS_TOKEN" /users/me | field user_id)

send() { call "$1" "/chats/$CHAT/messages" "{\\"client_message_id\\":\\"$(uuid)\\",\\"content\\":\\"$2\\"}"; }
CHAT=$(call "$TOKEN" /chats '{"type":"direct","member_ids":["'"$BOB"'"]}' | field chat_id)
GROUP=$(call "$TOKEN" /chats '{"type":"group","name":"Sailing","member_ids":["'"$BOB"'"]}' | field chat_id)
MESSAGE=$(send "$TOKEN" "Are we still sailing on Saturday?" | field message_id)
BOBS_MESSAGE=$(send "$BOBS_TOKEN" "Wind is good. See you at ten." | field message_id)`;
}

/**
 * A command that sends an example of an operation, with variables of {@link prelude} for the ids and secrets that a
 * server makes. `undefined` for an operation that a shell cannot call, because an authenticator signs its request or made
 * what it names.
 */
export function curl(origin: string, { method, path, operation }: RestEntry, example: string): string | undefined {
  const parameters = operation.parameters ?? [];
  const shown = (place: string) => parameters.filter((one) => one.in === place && one.example !== undefined);
  const body = json(operation.requestBody?.content)?.examples?.[example]?.value;
  if (path.includes("{passkey_id}") || Object.hasOwn(Object(body), "credential")) return undefined;
  const filled = shown("path").reduce((url, one) => url.replace(`{${one.name}}`, inUrl(one.example)), path);
  const query = shown("query").map((one) => `${one.name}=${inUrl(one.example)}`).join("&");
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}"${origin}${filled}${query && `?${query}`}"`];
  if (operation.security) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  // A key is for one request, and a copied command is sent more than once.
  for (const one of shown("header")) lines.push(`-H "${one.name}: $(uuid)"`);
  if (body !== undefined) lines.push(`-H "Content-Type: application/json"`, `-d '${quoted(JSON.stringify(body))}'`);
  const { operationId } = operation;
  const preparation = PREPARATIONS[`${operationId}/${example}`] ?? PREPARATIONS[operationId];
  return [...(preparation === undefined ? [] : [preparation]), lines.join(" \\\n  ")].join("\n");
}

/** A value within double quotes of a shell and in a URL. */
function inUrl(value: unknown): string {
  const text = String(value);
  return variableOf(text) ?? encodeURIComponent(text);
}

function variableOf(text: string): string | undefined {
  const found = Object.entries(VARIABLES).find(([, documented]) => documented === text);
  return found && `$${found[0]}`;
}

/** A text within single quotes of a shell, which variables leave and enter again. */
function quoted(text: string): string {
  const escaped = text.replaceAll("'", `'\\''`);
  return Object.entries(VARIABLES).reduce((all, [name, value]) => all.replaceAll(value, `'"$${name}"'`), escaped);
}
