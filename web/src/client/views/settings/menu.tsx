import { useState } from "preact/hooks";

import { go } from "../../state/navigation.js";
import { outbox } from "../../state/outbox.js";
import { signOut } from "../../state/session.js";
import { routeHash, type SettingsSection } from "../../store/route.js";
import { Button, IconButton } from "../../ui/button.js";
import { Confirm } from "../../ui/dialog.js";
import { Icon, type IconName } from "../../ui/icon.js";

const SECTIONS: readonly (readonly [SettingsSection, IconName, string])[] = [
  ["profile", "person", "Profile"],
  ["privacy", "eye", "Privacy"],
  ["notifications", "bell", "Notifications"],
  ["devices", "device", "Devices"],
  ["passkeys", "key", "Passkeys"],
  ["appearance", "contrast", "Appearance"],
  ["account", "info", "Account"],
];

/** The menu of the settings, and the sign-out. */
export function SettingsMenu({ section }: { section: SettingsSection | undefined }) {
  const [isAsked, setAsked] = useState(false);
  const unsent = outbox.value.filter((entry) => entry.state !== "sent").length;
  return (
    <section class="sidebar" aria-label="Settings">
      <header class="sidebar-header">
        <IconButton icon="back" label="Back to chats" onClick={() => go({ at: "inbox" })} />
        <h1>Settings</h1>
      </header>
      <nav aria-label="Settings">
        <ul class="settings-menu">
          {SECTIONS.map(([name, icon, words]) => (
            <li key={name}>
              <a
                href={routeHash({ at: "settings", section: name })}
                aria-current={name === (section ?? "profile") ? "page" : undefined}
              >
                <Icon name={icon} />
                {words}
                <span class="settings-arrow">
                  <Icon name="forward" size={16} />
                </span>
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="sidebar-footer">
        <Button kind="danger" icon="leave" onClick={() => setAsked(true)}>
          Sign out
        </Button>
      </div>
      {isAsked && (
        <Confirm
          title="Sign out?"
          text={
            unsent > 0
              ? `${unsent === 1 ? "A message" : `${unsent} messages`} of yours could not be sent yet and will be lost.`
              : "Everything of yours is taken off this device. Your messages stay on your other devices."
          }
          action="Sign out"
          onConfirm={() => void signOut()}
          onClose={() => setAsked(false)}
        />
      )}
    </section>
  );
}
