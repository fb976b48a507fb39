import type { Me } from "@tidings/client";

import { go } from "../../state/navigation.js";
import type { SettingsSection as Section } from "../../store/route.js";
import { IconButton } from "../../ui/button.js";
import { Account } from "./account.js";
import { Appearance } from "./appearance.js";
import { Devices } from "./devices.js";
import { Notifications } from "./notifications.js";
import { Passkeys } from "./passkeys.js";
import { Privacy } from "./privacy.js";
import { Profile } from "./profile.js";

const TITLES: Record<Section, string> = {
  profile: "Profile",
  privacy: "Privacy",
  notifications: "Notifications",
  devices: "Devices",
  passkeys: "Passkeys",
  appearance: "Appearance",
  account: "Account",
};

/** One section of the settings. */
export function SettingsSection({ section, me }: { section: Section; me: Me }) {
  return (
    <main class="main settings">
      <header class="settings-header">
        <IconButton
          class="only-phone"
          icon="back"
          label="Back to settings"
          onClick={() => go({ at: "settings", section: undefined })}
        />
        <h1>{TITLES[section]}</h1>
      </header>
      <div class="settings-body">
        {section === "profile" && <Profile me={me} />}
        {section === "privacy" && <Privacy me={me} />}
        {section === "notifications" && <Notifications />}
        {section === "devices" && <Devices />}
        {section === "passkeys" && <Passkeys />}
        {section === "appearance" && <Appearance />}
        {section === "account" && <Account me={me} />}
      </div>
    </main>
  );
}
