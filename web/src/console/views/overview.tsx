import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import type { Sample } from "../answers";
import { bytes, count, milliseconds, number, short } from "../format";
import { Plot } from "../parts/plot";
import { sentence } from "../parts/shown";
import { followPulse, pulseFailure, samples } from "../pulse";
import { line, linesByName, times, total, within } from "../series";

/** Capacity of a lane's commit queue; beyond it a send is refused as busy. */
const INGEST_QUEUE_MAX = 8192;
/** Capacity of a connection's push queue; beyond it the client has to sync. */
const MAILBOX_MAX = 1000;
/** Upper bound of the reply time of a send. */
const ANSWER_DEADLINE_MS = 5000;

/** The current and recent state of the service. */
export function Overview() {
  const minutes = useSignal(5);
  useEffect(followPulse, []);
  const shown = useComputed(() => within(samples.value, minutes.value * 60)).value;
  const last = shown.at(-1);
  return (
    <>
      <header class="view-head">
        <h1>Overview</h1>
        <fieldset class="choice">
          <legend class="visually-hidden">Time shown</legend>
          {[5, 30].map((choice) => (
            <label key={choice}>
              <input
                type="radio"
                name="minutes"
                checked={minutes.value === choice}
                onChange={() => (minutes.value = choice)}
              />
              <span>{choice} min</span>
            </label>
          ))}
        </fieldset>
      </header>
      {pulseFailure.value === null ? null : (
        <p class="notice notice-bad" role="alert">{sentence(pulseFailure.value)}</p>
      )}
      {last === undefined ? (
        <p class="empty" role="status">The first measurement comes two seconds after the start.</p>
      ) : (
        <>
          <Tiles last={last} />
          <Violations last={last} />
          <Plots shown={shown} last={last} seconds={minutes.value * 60} />
        </>
      )}
    </>
  );
}

function Tiles({ last }: { last: Sample }) {
  const lag = total(last.lag_events);
  const errors = total(last.errors_per_second);
  const tiles: [string, string, string][] = [
    ["Sends", number(last.sends_per_second), "a second"],
    ["Answered, p99", last.ack_p99_ms === null ? "–" : milliseconds(last.ack_p99_ms), "from queue to answer"],
    ["Pushes", number(last.pushes_per_second), "a second"],
    ["Connections", last.connections === null ? "–" : number(last.connections), "open here"],
    ["Log lag", number(lag), lag === 1 ? "event" : "events"],
    ["Errors", number(errors), "a second"],
  ];
  if (last.disk_free_bytes !== null) {
    const used = last.disk_used_bytes === null ? "on the disk" : `${bytes(last.disk_used_bytes)} used by the store`;
    tiles.push(["Disk free", bytes(last.disk_free_bytes), used]);
  }
  return (
    <ul class="tiles">
      {tiles.map(([name, value, unit]) => (
        <li key={name}>
          <span class="tile-name">{name}</span>
          <b>{value}</b>
          <span class="quiet">{unit}</span>
        </li>
      ))}
    </ul>
  );
}

/** Invariant violations. Each one is an incident until an operator has looked at it. */
function Violations({ last }: { last: Sample }) {
  const names = Object.entries(last.violations).filter(([, times]) => times > 0);
  if (names.length === 0) {
    return <p class="notice notice-good">No invariant was violated since this process was started.</p>;
  }
  return (
    <div class="notice notice-bad" role="alert">
      <p>
        <b>Invariants were violated.</b> The operations were refused; find “an invariant does not hold” in the log.
      </p>
      <ul>{names.map(([name, times]) => <li key={name}><code>{name}</code> {count(times, "time")}</li>)}</ul>
    </div>
  );
}

function Plots({ shown, last, seconds }: { shown: Sample[]; last: Sample; seconds: number }) {
  const at = times(shown);
  const violated = linesByName(shown, (sample) => sample.violations);
  return (
    <div class="plots">
      <Plot
        title="Messages"
        note="a second"
        times={at}
        seconds={seconds}
        format={short}
        lines={[
          line(shown, "sends", (sample) => sample.sends_per_second),
          line(shown, "acknowledged", (sample) => sample.acks_per_second),
          line(shown, "pushes", (sample) => sample.pushes_per_second),
        ]}
      />
      <Plot
        title="Time to the answer"
        note="from the queue of ingest, the commit within"
        times={at}
        seconds={seconds}
        format={milliseconds}
        bound={{ at: ANSWER_DEADLINE_MS, name: "deadline" }}
        lines={[line(shown, "p50", (sample) => sample.ack_p50_ms), line(shown, "p99", (sample) => sample.ack_p99_ms)]}
      />
      <Plot
        title="Time to the push"
        note="from the commit"
        times={at}
        seconds={seconds}
        format={milliseconds}
        lines={[line(shown, "p50", (sample) => sample.push_p50_ms), line(shown, "p99", (sample) => sample.push_p99_ms)]}
      />
      <Plot
        title="Connections"
        note="open in this process"
        times={at}
        seconds={seconds}
        format={short}
        lines={[line(shown, "connections", (sample) => sample.connections)]}
      />
      <Plot
        title="Sends waiting"
        note="for their commit"
        times={at}
        seconds={seconds}
        format={short}
        bound={{ at: INGEST_QUEUE_MAX, name: "a lane is full at" }}
        lines={[line(shown, "waiting", (sample) => sample.ingest_queue)]}
      />
      <Plot
        title="Fullest mailbox"
        note="pushes waiting for one connection"
        times={at}
        seconds={seconds}
        format={short}
        bound={{ at: MAILBOX_MAX, name: "full at" }}
        lines={[
          line(shown, "waiting", (sample) => sample.mailbox_fullest),
          line(shown, "clients that missed some, a second", (sample) => sample.missed_per_second),
        ]}
      />
      <Plot
        title="Log lag"
        note="events that a consumer has not done"
        times={at}
        seconds={seconds}
        format={short}
        lines={linesByName(shown, (sample) => sample.lag_events)}
      />
      <Plot
        title="Errors"
        note="answered, a second, by code"
        times={at}
        seconds={seconds}
        format={short}
        lines={[
          line(shown, "all", (sample) => total(sample.errors_per_second)),
          ...linesByName(shown, (sample) => sample.errors_per_second),
        ]}
      />
      <Plot
        title="Memory"
        note="in RAM"
        times={at}
        seconds={seconds}
        format={bytes}
        lines={[line(shown, "resident", (sample) => sample.memory_bytes)]}
      />
      <Plot
        title="Processor"
        note="cores in use"
        times={at}
        seconds={seconds}
        format={number}
        lines={[line(shown, "cores", (sample) => sample.cpu_cores)]}
      />
      {last.disk_free_bytes === null ? null : (
        <Plot
          title="Disk"
          note="of the store"
          times={at}
          seconds={seconds}
          format={bytes}
          {...(last.disk_limit_bytes === null ? {} : { bound: { at: last.disk_limit_bytes, name: "sends stop at" } })}
          lines={[
            line(shown, "used", (sample) => sample.disk_used_bytes),
            line(shown, "free", (sample) => sample.disk_free_bytes),
          ]}
        />
      )}
      {violated.length === 0 ? null : (
        <Plot
          title="Violations"
          note="since the start, by invariant"
          times={at}
          seconds={seconds}
          format={number}
          lines={violated}
          isBad
        />
      )}
    </div>
  );
}
