import { useState } from "preact/hooks";

import { chooseTheme, themeChoice } from "../../../shared/theme-choice.js";
import { Choices } from "./choices.js";

/** Light or dark. */
export function Appearance() {
  const [choice, setChoice] = useState(themeChoice());
  return (
    <Choices
      label="Theme"
      value={choice}
      options={[
        ["system", "As the system", "Changes with it, by day and by night."],
        ["light", "Light", "Ink on paper."],
        ["dark", "Dark", "Easy on the eyes at night."],
      ]}
      onChange={(next) => {
        chooseTheme(next);
        setChoice(next);
      }}
    />
  );
}
