"use strict";
// Filters the entries, draws the lifetimes of processes and connections, and shows the visible messages at an entry.
(() => {
  const byId = (id) => document.getElementById(id);
  const [chat, user, words, count, detail, lives] = ["chat", "user", "words", "count", "detail", "lives"].map(byId);
  const kinds = [...document.querySelectorAll("#kinds input")];
  const lanes = [...document.querySelectorAll("#lanes span")].map((lane) => ({
    name: lane.textContent,
    sort: lane.className,
  }));
  const entries = [...document.querySelectorAll("#entries li")].map((row, n) => ({
    row,
    n,
    kind: row.className,
    lane: Number(row.dataset.lane),
    chats: row.dataset.chats ? row.dataset.chats.split(" ") : [],
    users: row.dataset.users ? row.dataset.users.split(" ") : [],
    has: row.dataset.has === undefined ? null : Number(row.dataset.has),
    life: row.dataset.life,
    said: row.textContent.toLowerCase(),
  }));
  const violations = entries.filter((entry) => entry.kind === "violations");
  let pinned = null;

  // Entries without a chat or a user are context and always stay.
  const isOf = (names, wanted) => wanted === "" || names.length === 0 || names.includes(wanted);

  function filter() {
    const on = new Set(kinds.filter((kind) => kind.checked).map((kind) => kind.value));
    const wanted = words.value.trim().toLowerCase();
    let shown = 0;
    for (const entry of entries) {
      const visible =
        on.has(entry.kind) &&
        isOf(entry.chats, chat.value) &&
        isOf(entry.users, user.value) &&
        (wanted === "" || entry.said.includes(wanted));
      entry.row.hidden = !visible;
      // The position among the visible rows; a hidden entry happened between two of them.
      entry.height = visible ? shown + 0.5 : shown;
      shown += visible ? 1 : 0;
    }
    count.textContent = `${shown} of ${entries.length}`;
    draw();
    if (pinned) show(pinned);
  }

  // A line down each lane, stronger where its process runs or its client is connected.
  function draw() {
    const list = byId("entries");
    document.documentElement.style.setProperty("--top", `${document.querySelector("nav").offsetHeight}px`);
    lives.style.top = `${list.offsetTop}px`;
    const all = entries.filter(({ row }) => !row.hidden).length;
    const segments = lanes.map((lane) => [{ from: 0, alive: lane.sort === "other" }]);
    for (const { lane, life, height } of entries) {
      if (life) segments[lane].push({ from: height, alive: life === "begins" });
    }
    lives.replaceChildren(
      ...segments.flatMap((ofLane, lane) =>
        ofLane.map(({ from, alive }, n) => {
          const to = ofLane[n + 1]?.from ?? all;
          const line = document.createElement("i");
          line.className = alive ? "alive" : "";
          line.style.cssText = `--l:${lane};--from:${from};--to:${to}`;
          return line;
        }),
      ),
    );
  }

  function element(name, text, ...children) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  }

  function ranges(sequences) {
    const found = [];
    for (const sequence of [...sequences].sort((a, b) => a - b)) {
      const last = found.at(-1);
      if (last && last[1] + 1 === sequence) last[1] = sequence;
      else found.push([sequence, sequence]);
    }
    return found.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(" ") || "-";
  }

  // The messages of a chat in the store, in the log and at every client at the time of an entry.
  function visibleAt(entry, of) {
    const has = new Map();
    const alive = new Set();
    for (const { lane, chats, has: sequence, life } of entries.slice(0, entry.n + 1)) {
      if (life === "begins") alive.add(lane);
      if (life === "ends") alive.delete(lane);
      if (sequence === null || !chats.includes(of)) continue;
      if (!has.has(lane)) has.set(lane, new Set());
      has.get(lane).add(sequence);
    }
    const table = element("table", "", element("caption", `what there was of ${chat.options[Number(of) + 1].text} by then`));
    lanes.forEach(({ name, sort }, lane) => {
      if (sort === "process" || (!has.has(lane) && !(sort === "client" && alive.has(lane)))) return;
      const away = sort === "client" && !alive.has(lane);
      const line = element("tr", "", element("th", away ? `${name}, away` : name), element("td", ranges(has.get(lane) ?? [])));
      line.className = away ? "away" : "";
      table.append(line);
    });
    return table;
  }

  function show(entry) {
    const [time, , said] = entry.row.children;
    const of = entry.chats[0] ?? (chat.value === "" ? undefined : chat.value);
    detail.replaceChildren(
      element("h2", said.textContent),
      element("p", "", element("time", `${time.textContent} s, entry ${entry.n}`)),
      element("p", "", element("code", entry.row.dataset.raw)),
      ...(of === undefined ? [] : [visibleAt(entry, of)]),
    );
    detail.hidden = false;
  }

  function pin(entry) {
    if (pinned) pinned.row.classList.remove("pinned");
    pinned = entry;
    if (!entry) {
      detail.hidden = true;
      return;
    }
    entry.row.classList.add("pinned");
    show(entry);
  }

  function goTo(entry) {
    if (!entry) return;
    if (entry.row.hidden) {
      [chat.value, user.value, words.value] = ["", "", ""];
      kinds.forEach((kind) => (kind.checked = true));
      filter();
    }
    pin(entry);
    entry.row.scrollIntoView({ block: "center" });
  }

  const entryOf = (target) => {
    const row = target.closest("#entries li");
    return row && entries[Number(row.id.slice(1))];
  };
  const list = byId("entries");
  list.addEventListener("mouseover", (event) => {
    const entry = entryOf(event.target);
    if (entry) show(entry);
  });
  list.addEventListener("mouseleave", () => (pinned ? show(pinned) : (detail.hidden = true)));
  list.addEventListener("click", (event) => {
    const entry = entryOf(event.target);
    if (entry) pin(entry === pinned ? null : entry);
  });
  byId("violations").addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    goTo(entries[Number(link.getAttribute("href").slice(2))]);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select")) return;
    const at = pinned ? pinned.n : -1;
    if (event.key === "n") goTo(violations.find((entry) => entry.n > at) ?? violations[0]);
    if (event.key === "p") goTo(violations.findLast((entry) => entry.n < at) ?? violations.at(-1));
    if (event.key === "Escape") pin(null);
  });
  for (const input of [chat, user, words, ...kinds]) input.addEventListener("input", filter);
  addEventListener("resize", draw);
  filter();
  const named = /^#e(\d+)$/.exec(location.hash);
  if (named) goTo(entries[Number(named[1])]);
  else if (violations.length > 0) pin(violations[0]);
})();
