import type { ComponentChildren } from "preact";

/** The frame around the steps of the sign-in. */
export function Frame({ children }: { children: ComponentChildren }) {
  return (
    <div class="welcome">
      <section class="welcome-story" aria-label="About Tidings">
        <div class="brand">
          <img src="/assets/icon.svg" alt="" width={40} height={40} />
          <span>Tidings</span>
        </div>
        <div class="welcome-sample" aria-hidden="true">
          <span class="sample sample-theirs">Did it arrive?</span>
          <span class="sample sample-mine">Once, in order, on every device.</span>
          <span class="sample sample-mine">Even with the train in a tunnel.</span>
        </div>
        <p class="welcome-claim">Messages that arrive.</p>
      </section>
      <main class="welcome-form">{children}</main>
    </div>
  );
}
