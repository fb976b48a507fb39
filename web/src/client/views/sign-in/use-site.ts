import { useEffect, useState } from "preact/hooks";

import { site, type Site } from "../../site.js";

/** The facts of the server; nothing until they are known. */
export function useSite(): Site | undefined {
  const [facts, setFacts] = useState<Site>();
  useEffect(() => void site().then(setFacts), []);
  return facts;
}
