import { useEffect, useState } from "preact/hooks";

import type { LinkGroup } from "./reference";
import { search } from "./reference";

/** The contents, with a search that narrows them. On a narrow screen they open over the page. */
export function Navigation({ groups }: { groups: LinkGroup[] }) {
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState(false);
  const current = useCurrent();
  const found = search(groups, query);
  useEffect(() => {
    document.querySelector(".contents [aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [current]);
  return (
    <nav class={open ? "contents open" : "contents"} aria-label="Contents">
      <button type="button" class="toggle" aria-expanded={open} aria-controls="contents" onClick={() => setOpen(!open)}>
        Contents
      </button>
      <div id="contents" class="inside">
        <input
          type="search"
          placeholder="Search"
          aria-label="Search operations and frames"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <p class="visually-hidden" role="status">
          {query && `${found.reduce((count, group) => count + group.links.length, 0)} found`}
        </p>
        {found.length === 0 && <p class="note">Nothing is called so.</p>}
        {found.map((group) => (
          <div key={group.title} class="group">
            <h2>{group.title}</h2>
            <ul>
              {group.links.map((link) => (
                <li key={link.id}>
                  <a
                    href={`#${link.id}`}
                    aria-current={link.id === current ? "location" : undefined}
                    onClick={() => setOpen(false)}
                  >
                    {link.badge && <span class={`method ${link.badge.toLowerCase()}`}>{link.badge}</span>}
                    <span>{link.label}</span>
                  </a>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </div>
    </nav>
  );
}

/** The current section: the one nearest to the top of the screen. */
function useCurrent(): string {
  const [current, setCurrent] = useState("overview");
  useEffect(() => {
    const seen = new IntersectionObserver(
      (entries) => {
        const arrived = entries.find((entry) => entry.isIntersecting);
        if (arrived) setCurrent(arrived.target.id);
      },
      { rootMargin: "0px 0px -80% 0px" },
    );
    document.querySelectorAll("main .entry, main section.page").forEach((section) => seen.observe(section));
    return () => seen.disconnect();
  }, []);
  return current;
}
