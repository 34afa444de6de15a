"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id), STEP = 100, LONGEST = 26, SHORT = 22, WHOLE = 16;
const NAME = 0, OUTCOME = 1, WHY = 2, DETAIL = 3, SOURCE = 4, RESULT = 5, BYTES = 6, SECONDS = 7,
  WORK = 8, BLOCKERS = 9, RUNS = 10, ORIGIN = 11, ACCEPTED = 12;
const show = versions => Object.entries(versions)
  .map(([domain, version]) => `${domain || "opset"} ${version}`).sort().join(", ");
const versions = data.versions.map(show);
const opsets = data.versions.map(one => Object.keys(one).length ? String(one[""] ?? "other domains")
  : "unknown");
const named = (domain, op) => domain ? `${domain}.${op}` : op;
const rewrites = row => Object.values(row[WORK][1]).reduce((sum, count) => sum + count, 0);
const growth = row => row[WORK][0] ? row[WORK][0][1] - row[WORK][0][0] : null;
const whole = number => number.toLocaleString("en");
function bytes(number) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (number < 999.5) return `${unit === "B" || number >= 99.5 ? number.toFixed(0)
      : Number(number.toPrecision(3))} ${unit}`;
    number /= 1000;
  }
  return `${whole(Math.round(number))} TB`;
}
function grown(row) {
  const change = growth(row);
  if (change === null) return "";
  const [before, after] = row[WORK][0];
  return change ? `${whole(before)} → ${whole(after)}` : whole(after);
}
const reached = row => (row[OUTCOME] === "refused" ? "nearest " : "") + versions[row[RESULT]];
const failing = row => data.order[row[OUTCOME]][0];
const columns = [
  ["Model", row => row[NAME], row => row[NAME]],
  ["Outcome", failing, row => row[OUTCOME]],
  ["Reason", row => data.texts[row[WHY]], row => data.texts[row[WHY]]],
  ["Before", row => versions[row[SOURCE]], row => versions[row[SOURCE]]],
  ["After", row => versions[row[RESULT]], reached],
  ["Rewrites", rewrites, row => row[WORK][0] ? whole(rewrites(row)) : "", true],
  ["Nodes", growth, grown, true],
  ["Size", row => row[BYTES], row => row[BYTES] ? bytes(row[BYTES]) : "", true],
  ["Seconds", row => row[SECONDS], row => row[SECONDS].toFixed(2), true],
];

const natural = new Intl.Collator("en", {numeric: true}).compare;
let hits = data.rows, shown = 0, filters = {}, sorted = {column: -1, up: true}, texts = null;

function add(parent, kind, words, name) {
  const made = document.createElement(kind);
  if (words) wrap(made, words);
  if (name) made.className = name;
  parent.append(made);
  return made;
}
const SEPARATED = [/(?<=[\/\\|,;])/, /(?<=[.=])/, /(?<=[:_-])/];
/* A line may end at a space or after a separator of a long name, and never inside a word. */
function wrap(parent, words) {
  const parts = (word, depth = 0) => word.length <= SHORT || depth === SEPARATED.length
    ? [word] : word.split(SEPARATED[depth]).flatMap(part => parts(part, depth + 1));
  if (String(words).length <= WHOLE) parent.classList.add("whole");
  for (const piece of String(words).split(/(?<= )/).flatMap(word => parts(word))) {
    if (piece.length > LONGEST) {
      const long = document.createElement("span");
      long.className = "long";
      long.title = long.textContent = piece;
      parent.append(long);
    } else parent.append(piece);
    if (!piece.endsWith(" ")) parent.append(document.createElement("wbr"));
  }
}

/* What a filter asks of a row; its name is what a click on a flow, a cell or a counter gives. */
const runsOf = (row, target) => row[RUNS].find(([number]) => data.targets[number] === target)?.[1];
const RUNNING = {
  now: state => state >= 3 && state < 6, after: state => state % 3 === 1,
  gained: state => state === 1, never: state => state === 0, unknown: state => state % 3 === 2,
};
const asks = {
  outcome: (row, wanted) => row[OUTCOME] === wanted,
  why: (row, wanted) => data.texts[row[WHY]] === wanted,
  before: (row, wanted) => opsets[row[SOURCE]] === wanted,
  after: (row, wanted) => (failing(row) < data.order.ok[0] ? row[OUTCOME] : opsets[row[RESULT]]
    .replace("unknown", "other domains")) === wanted,
  op: (row, wanted, all) => row[BLOCKERS].some(one => named(one[2], one[1]) === wanted
    && (!all.step || one[3] === all.step[0] && one[4] === all.step[1])),
  step: () => true,
  target: () => true,
  runs: (row, wanted, all) => {
    const state = runsOf(row, all.target);
    return state !== undefined && RUNNING[wanted](state);
  },
};
const LABELS = {outcome: "outcome", why: "reason", before: "opset before", after: "after",
  op: "blocked by", step: "at", target: "runtime", runs: "runs"};
const told = ([name, value]) => `${LABELS[name]} ${Array.isArray(value) ? value.join(" → ") : value}`;

function search(row) {
  const blockers = row[BLOCKERS].map(one => [...one.slice(0, 6), data.texts[one[6]]].join(" "));
  return [row[NAME], row[OUTCOME], data.texts[row[WHY]], data.texts[row[DETAIL]],
    versions[row[SOURCE]], versions[row[RESULT]], Object.keys(row[WORK][1]).join(" "),
    ...blockers].join(" ").toLowerCase();
}
function filter() {
  const words = at("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const asked = Object.entries(filters);
  if (words.length && !texts) texts = new Map(data.rows.map(row => [row, search(row)]));
  list(data.rows.filter(row => asked.every(([name, value]) => asks[name](row, value, filters))
    && words.every(word => texts.get(row).includes(word))));
}
function list(found) {
  hits = found;
  if (sorted.column >= 0) {
    const key = columns[sorted.column][1], way = sorted.up ? 1 : -1;
    const keyed = found.map(row => [key(row), row]);
    keyed.sort(([a], [b]) => a === b ? 0 : a === null ? 1 : b === null ? -1
      : way * (typeof a === "number" ? a - b : natural(a, b)));
    hits = keyed.map(([, row]) => row);
  }
  shown = 0;
  at("rows").replaceChildren();
  heads();
  chips();
  more();
}
function chips() {
  at("filters").replaceChildren();
  if (!Object.keys(filters).length) return;
  const chip = add(at("filters"), "button", `${Object.entries(filters).map(told).join(", ")}  ×`);
  chip.title = "Show all models";
  chip.onclick = () => { filters = {}; filter(); };
}
function heads() {
  at("head").replaceChildren();
  columns.forEach(([name, , , number], column) => {
    const cell = add(at("head"), "th", "", number ? "number" : "");
    const mark = sorted.column !== column ? "" : sorted.up ? " ↑" : " ↓";
    add(cell, "button", name + mark).onclick = () => {
      const again = sorted.column === column;
      sorted = {column, up: again ? !sorted.up : !number};
      list(hits);
    };
    if (mark) cell.ariaSort = sorted.up ? "ascending" : "descending";
  });
}
function plan(row) {
  const lines = row[BLOCKERS].map(([node, op, domain, from, to, why, detail]) =>
    `${named(domain, op)} '${node}' ${from} → ${to}: ${data.texts[detail]} [${why}]`);
  const work = Object.entries(row[WORK][1]).map(([op, count]) => `${op} ×${count}`).join(", ");
  const first = data.texts[row[DETAIL]] || data.texts[row[WHY]] || "Nothing blocks this model.";
  const runs = row[RUNS].map(([number, state]) => `${data.targets[number]}: `
    + `${["does not run now", "runs now", "not known now"][Math.floor(state / 3)]}, `
    + ["not after a conversion", "runs after a conversion", "not known after a conversion"][state % 3]);
  return [first, ...lines, ...(work ? [`Rewritten: ${work}`] : []), ...runs,
    `opshift plan '${row[NAME].replaceAll("'", "'\\''")}' ${data.options}`].join("\n");
}
function open(line, row) {
  if (line.nextSibling?.className === "plan") return line.nextSibling.remove();
  const under = document.createElement("tr");
  under.className = "plan";
  const cell = add(under, "td", "");
  cell.colSpan = columns.length;
  add(cell, "pre", plan(row));
  line.after(under);
}
function more() {
  const part = document.createDocumentFragment();
  for (const row of hits.slice(shown, shown + STEP)) {
    const line = add(part, "tr", "");
    columns.forEach(([name, , words, number], column) => {
      const cell = add(line, "td", "", number ? "number" : "");
      cell.dataset.name = name;
      const inside = add(cell, column ? "span" : "a", words(row));
      if (column === 0) inside.href = "#model=" + encodeURIComponent(row[NAME]);
      if (column === 1) inside.className = data.order[row[OUTCOME]][1];
    });
    line.onclick = event => event.target.closest("a") || open(line, row);
  }
  at("rows").append(part);
  shown = Math.min(shown + STEP, hits.length);
  at("more").hidden = shown === hits.length;
  at("count").textContent = `${hits.length} of ${data.rows.length}`;
}

/* The rows that are listed, in the form of `opshift batch --results`. */
function form(row) {
  return {schema_version: 1, kind: "row", model: row[NAME], outcome: row[OUTCOME],
    why: data.texts[row[WHY]], detail: data.texts[row[DETAIL]], source: data.versions[row[SOURCE]],
    result: data.versions[row[RESULT]], bytes: row[BYTES], seconds: row[SECONDS],
    blockers: row[BLOCKERS].map(([node, op, domain, from, to, why, detail]) =>
      ({node, op, domain, boundary: [from, to], why, detail: data.texts[detail]})),
    nodes_before: row[WORK][0] ? row[WORK][0][0] : null,
    nodes_after: row[WORK][0] ? row[WORK][0][1] : null, rewritten: row[WORK][1],
    origin: data.origins[row[ORIGIN]],
    runtimes: row[RUNS].map(([number, state]) => ({target: data.targets[number],
      now: [false, true, null][Math.floor(state / 3)], after: [false, true, null][state % 3]})),
    accepted: row[ACCEPTED]};
}
function cell(value) {
  if (Array.isArray(value)) return value.length;
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const told = typeof value === "object" ? show(value) : value;
  const text = new RegExp(data.formula).test(told) ? "'" + told : told;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
function asCsv(rows) {
  const names = data.names.filter(one => !["schema_version", "kind"].includes(one));
  return [names, ...rows.map(form).map(one => names.map(name => cell(one[name])))]
    .map(line => line.join(",")).join("\n") + "\n";
}
const asJson = rows => JSON.stringify(rows.map(form), null, 1) + "\n";
function offer(name, kind, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type: kind}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function unescaped(hash) {
  try { return decodeURIComponent(hash); } catch { return hash; }
}
function route() {
  const words = unescaped(location.hash.slice(1)), name = words.replace(/^model=/, "");
  filters = {};
  at("find").value = name;
  if (name === words) return filter();
  list(data.rows.filter(row => row[NAME] === name));
  if (hits.length) open(at("rows").firstChild, hits[0]);
  at("models").scrollIntoView();
}
function press(event) {
  const pressed = event.target.closest?.("[data-filter]");
  if (!pressed || event.type === "keydown" && event.key !== "Enter") return;
  filters = JSON.parse(pressed.dataset.filter);
  at("find").value = "";
  filter();
  at("models").scrollIntoView();
}
addEventListener("click", press);
addEventListener("keydown", event => event.target.tagName !== "BUTTON" && press(event));
at("find").oninput = filter;
at("more").onclick = more;
at("csv").onclick = () => offer("models.csv", "text/csv", asCsv(hits));
at("json").onclick = () => offer("models.json", "application/json", asJson(hits));
addEventListener("hashchange", route);
route();
