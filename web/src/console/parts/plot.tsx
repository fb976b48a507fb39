import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import type { Line } from "../series";

/** The colours of lines, in their order: variables of the style sheet. */
const COLOURS = ["--plot-1", "--plot-2", "--plot-3", "--plot-4", "--plot-5", "--plot-6"];
const HEIGHT = 148;
/** All plots have their crosshair at the same time. */
const SYNC = "pulse";

/** The index of the crosshair in the visible samples; null if there is none. */
const pointed = signal<number | null>(null);

/** One plot over time, with its legend. */
export interface PlotProps {
  title: string;
  /** The measure in a few words. */
  note: string;
  times: number[];
  /** The time span of the plot, up to the last sample. */
  seconds: number;
  lines: Line[];
  format: (value: number) => string;
  /** The bound beyond which work is refused or lost. */
  bound?: { at: number; name: string };
  /** Whether any value above zero is an error. */
  isBad?: boolean;
}

/** A plot over time. Its legend shows the values at the crosshair, or the last ones. */
export function Plot(props: PlotProps) {
  const { title, note, times, seconds, lines, format, bound, isBad } = props;
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const names = lines.map((line) => line.name).join("\n");

  useEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element, props), data(times, lines), element);
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    // Colours are read when a plot is created, so a theme change creates a new plot.
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, seconds]);
  useEffect(() => plot.current?.setData(data(times, lines)), [times, lines]);

  const at = pointed.value ?? times.length - 1;
  const shown = lines.map((line) => ({ name: line.name, value: line.values[at] ?? null }));
  const text = (value: number | null) => (value === null ? "–" : format(value));
  const spoken = shown.map(({ name, value }) => `${name} ${text(value)}`).join(", ");
  return (
    <figure class="plot">
      <figcaption>
        <h2>{title}</h2>
        <span class="quiet">{note}</span>
      </figcaption>
      <div ref={frame} class="plot-frame" role="img" aria-label={`${title}: ${spoken}`} />
      <ul class="legend">
        {shown.map(({ name, value }, index) => (
          <li key={name}>
            <span class={isBad === true ? "swatch swatch-bad" : `swatch swatch-${(index % COLOURS.length) + 1}`} />
            {name} <b>{text(value)}</b>
          </li>
        ))}
        {bound === undefined ? null : <li class="quiet">{bound.name} {format(bound.at)}</li>}
      </ul>
    </figure>
  );
}

function data(times: number[], lines: Line[]): uPlot.AlignedData {
  return [times, ...lines.map((line) => line.values)];
}

function options(element: HTMLElement, { seconds, lines, format, bound, isBad }: PlotProps): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const font = `11px ${style.getPropertyValue("--font")}`;
  const axis: uPlot.Axis = {
    stroke: colour("--ink-3"),
    font,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: SYNC }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: { range: (_plot, _min, max) => [max - seconds, max] },
      y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 24, space: 70, values: (_plot, ticks) => ticks.map(clock) },
      { ...axis, size: 52, space: 32, values: (_plot, ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...lines.map((line, index): uPlot.Series => {
        const stroke = colour(isBad === true ? "--danger" : (COLOURS[index % COLOURS.length] ?? "--ink"));
        return { label: line.name, stroke, width: 1.75, spanGaps: false, points: { show: false } };
      }),
    ],
    hooks: {
      setCursor: [(plot) => (pointed.value = plot.cursor.idx ?? null)],
      draw: bound === undefined ? [] : [(plot) => drawBound(plot, bound.at, colour("--danger"))],
    },
  };
}

/** A line at the bound, where the plot reaches it. */
function drawBound(plot: uPlot, at: number, colour: string): void {
  const max = plot.scales["y"]?.max;
  if (max === undefined || max === null || at > max) return;
  const y = Math.round(plot.valToPos(at, "y", true));
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([6, 4]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

function clock(seconds: number): string {
  const date = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
