import type { ComponentChildren } from "preact";

import { ago, moment } from "../format";

/** A timestamp, with its age. */
export function Moment(props: { at: string | null; none?: string }) {
  if (props.at === null) return <span class="quiet">{props.none ?? "never"}</span>;
  return (
    <time dateTime={props.at} title={props.at}>
      {moment(props.at)} <span class="quiet">{ago(new Date(props.at), new Date())}</span>
    </time>
  );
}

/** An id, with a button that copies it. */
export function Id(props: { id: string }) {
  return (
    <span class="id">
      <code>{props.id}</code>
      <button
        class="copy"
        type="button"
        aria-label={`Copy ${props.id}`}
        title="Copy"
        onClick={() => void navigator.clipboard.writeText(props.id)}
      >
        <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
          <path d="M5.5 5.5V3a1 1 0 0 1 1-1H13a1 1 0 0 1 1 1v6.5a1 1 0 0 1-1 1h-2.5" />
          <path d="M3 5.5h6.5a1 1 0 0 1 1 1V13a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1V6.5a1 1 0 0 1 1-1Z" />
        </svg>
      </button>
    </span>
  );
}

/** The severity of a word for the operator: fine, worth a look, or wrong. */
export type Tone = "good" | "warning" | "bad" | "plain";

/** A highlighted word. */
export function Badge(props: { tone?: Tone; children: ComponentChildren }) {
  return <span class={`badge badge-${props.tone ?? "plain"}`}>{props.children}</span>;
}

/** A list of facts, each with its name. */
export function Facts(props: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {props.of.map(([name, fact]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{fact}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The contents of a section. */
interface PanelProps {
  title: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

/** A section of a view, with its heading. */
export function Panel(props: PanelProps) {
  return (
    <section class="panel">
      <header class="panel-head">
        <h2>{props.title}</h2>
        {props.note === undefined ? null : <span class="quiet">{props.note}</span>}
        {props.actions === undefined ? null : <div class="panel-actions">{props.actions}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** A table that scrolls horizontally if it is wider than the page, also with the keyboard. */
export function Table(props: { label: string; heads: string[]; children: ComponentChildren }) {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.heads.map((head) => (
              <th scope="col" key={head}>{head === "" ? <span class="visually-hidden">Actions</span> : head}</th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}
