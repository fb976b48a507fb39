import type { Reaction } from "@tidings/client";

/** The reactions to a message with their counts. A click adds the user's own, or removes it. */
export function Reactions(props: { reactions: readonly Reaction[]; onToggle: (reaction: string) => void }) {
  const { reactions, onToggle } = props;
  if (reactions.length === 0) return null;
  return (
    <ul class="reactions" aria-label="Reactions">
      {reactions.map(({ reaction, count, mine }) => (
        <li key={reaction}>
          <button
            type="button"
            class="reaction"
            title={mine ? `Remove your ${reaction}` : `React with ${reaction}`}
            aria-pressed={mine === true}
            onClick={() => onToggle(reaction)}
          >
            <bdi class="reaction-what">{reaction}</bdi> <span class="reaction-count">{count}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
