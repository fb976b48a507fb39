import type { ComponentChildren, JSX } from "preact";

import { Icon, type IconName } from "./icon.js";

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "icon"> & {
  kind?: "primary" | "plain" | "danger";
  icon?: IconName;
  children: ComponentChildren;
};

/** A button with a text. */
export function Button({ kind = "plain", icon, children, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} class={`button button-${kind}`}>
      {icon && <Icon name={icon} size={18} />}
      {children}
    </button>
  );
}

/** A button with an icon. The label is the tooltip and the accessible name. */
export function IconButton({
  icon,
  label,
  size,
  ...rest
}: Omit<ButtonProps, "children" | "kind" | "size"> & { icon: IconName; label: string; size?: number }) {
  return (
    <button type="button" title={label} aria-label={label} {...rest} class={`icon-button ${rest.class ?? ""}`}>
      <Icon name={icon} {...(size === undefined ? {} : { size })} />
    </button>
  );
}
