// Draws the numbers of every table with data-chart above it.
"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = [];
const DAY = 86400;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
  .concat([1, 2, 5, 10, 30, 90, 365].map((days) => days * DAY)); // seconds between two labels of the time axis

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function numbers(table) {
  const rows = [...table.tBodies[0].rows];
  const x = rows.map((row) => Number(row.cells[0].querySelector("time").dataset.x));
  const columns = [...table.tHead.rows[0].cells].slice(1).map((head, place) => ({
    label: head.textContent,
    values: rows.map((row) => {
      const y = row.cells[place + 1]?.dataset.y;
      return y === undefined ? null : Number(y);
    }),
  }));
  return [x, columns];
}

function times(chart, ticks) {
  const isLong = ticks.at(-1) - ticks[0] > 2 * DAY;
  return ticks.map((at) => {
    const text = new Date(at * 1000).toISOString();
    return isLong ? text.slice(5, 10) : ticks.at(-1) - ticks[0] < 60 ? text.slice(11, 19) : text.slice(11, 16);
  });
}

function draw(table) {
  const place = table.closest("figure").querySelector(".chart");
  const [x, columns] = numbers(table);
  if (x.length < 2 || !columns.length) return;
  const isShare = table.dataset.chart === "percent";
  const said = (value) => value == null ? "–" : isShare ? `${(100 * value).toFixed(1)} %` : Number(value.toPrecision(3)).toString();
  const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  const options = {
    width: place.parentElement.clientWidth,
    height: 220,
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
    scales: { y: { range: (chart, low, high) => uPlot.rangeNum(Math.min(low ?? 0, 0), high || (low < 0 ? 0 : 1), 0.1, true) } },
    axes: [{ ...axis, space: 80, incrs: STEPS, values: times }, { ...axis, size: 72, values: (chart, ticks) => ticks.map(said) }],
    series: [
      { label: "UTC", value: (chart, at) => at == null ? "–" : new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ") },
      ...columns.map(({ label }, number) => ({
        label, stroke: color(`--s${number % 6 + 1}`), width: 2, dash: number % 2 ? [6, 4] : [], spanGaps: true,
        points: { show: x.length < 12 }, value: (chart, value) => said(value),
      })),
    ],
  };
  place.replaceChildren();
  const chart = new uPlot(options, [x, ...columns.map((column) => column.values)], place);
  drawn.push([chart, place]);
}

function drawAll() {
  for (const [chart] of drawn.splice(0)) chart.destroy();
  for (const table of document.querySelectorAll("table[data-chart]")) draw(table);
}

drawAll();
dark.addEventListener("change", drawAll);
addEventListener("resize", () => {
  for (const [chart, place] of drawn) chart.setSize({ width: place.parentElement.clientWidth, height: 220 });
});
