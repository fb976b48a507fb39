import type { ComponentChildren } from "preact";

/** A page with a single notice. */
export function Notice({ title, text, children }: { title: string; text: string; children: ComponentChildren }) {
  return (
    <main class="notice-page">
      <img src="/assets/icon.svg" alt="" width={56} height={56} />
      <h1>{title}</h1>
      <p>{text}</p>
      {children}
    </main>
  );
}
