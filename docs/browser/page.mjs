// The page: it gives files and commands to the worker, and shows what comes back.
const LIMIT = 256 * 2 ** 20; // bytes; a conversion needs several times the model in memory
const $ = (id) => document.getElementById(id);
const worker = new Worker("worker.mjs", { type: "module" });
const waiting = new Map();
let model = null, result = null;

worker.onmessage = ({ data: { id, answer, error } }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  error === undefined ? resolve(answer) : reject(new Error(error));
};
worker.onerror = (event) => say(`The page cannot start: ${event.message}`, "bad");

function ask(what, given, moved = []) {
  return new Promise((resolve, reject) => {
    const id = waiting.size ? Math.max(...waiting.keys()) + 1 : 1;
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, what, given }, moved);
  });
}

function say(text, kind = "") {
  $("state").textContent = text;
  $("state").className = kind;
}

function busy(is) {
  for (const one of $("actions").querySelectorAll("button, input"))
    one.disabled = is || model === null;
}

const quoted = (word) => (/^[\w.,:=<>+@%/-]+$/.test(word) && !/[<>]/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
const shown = (words) => ["opshift", ...words].map(quoted).join(" ");

function show(title, words, { code, text }) {
  const part = document.createElement("section");
  const head = document.createElement("h2");
  head.textContent = title;
  head.className = code === 0 ? "ok" : code === 1 ? "no" : "bad";
  const line = document.createElement("code");
  line.textContent = shown(words);
  const body = document.createElement("pre");
  body.textContent = text.trimEnd();
  part.append(head, line, body);
  part.dataset.code = code;
  $("answers").prepend(part);
}

async function run(title, words) {
  busy(true);
  say(`Running ${shown(words)} …`);
  try {
    const answer = await ask("run", { words });
    show(title, words, answer);
    say("Ready. Nothing leaves this computer.");
    return answer;
  } finally {
    busy(false);
  }
}

function target() {
  const text = $("target").value.trim();
  return /^\d+$/.test(text) ? ["--to", text] : ["--for", text];
}

const safe = (name) => name.replace(/[^\p{L}\p{N}._ -]/gu, "_").replace(/^[-.]+/, "") || "model.onnx";

async function take(file) {
  $("answers").replaceChildren();
  $("download").hidden = true;
  if (model !== null) await ask("remove", { name: model }).catch(() => {});
  model = null;
  busy(true);
  const name = safe(file.name);
  if (file.size > LIMIT) {
    const size = Math.round(file.size / 2 ** 20);
    say(`${file.name} has ${size} MB. This page takes up to ${LIMIT / 2 ** 20} MB; use the command:`, "bad");
    const words = ["convert", name, "-o", "out.onnx", "--to", "13"];
    show("Too large for a browser", words, { code: 2, text: "pip install opshift" });
    return;
  }
  const bytes = await file.arrayBuffer();
  await ask("write", { name, bytes }, [bytes]);
  model = name;
  const told = await run(file.name, ["info", name]);
  if (told.code > 1) model = null;
  busy(false);
}

async function convert() {
  const stem = model.replace(/\.onnx$/i, "");
  const [option, value] = target();
  result = `${stem}_${option === "--to" ? "opset" : ""}${safe(value).replaceAll("==", "-")}.onnx`;
  $("download").hidden = true;
  const told = await run("Convert", ["convert", model, "-o", result, option, value]);
  if (told.code !== 0) return;
  const blob = new Blob([await ask("read", { name: result })], { type: "application/octet-stream" });
  URL.revokeObjectURL($("download").href);
  $("download").href = URL.createObjectURL(blob);
  $("download").download = result;
  $("download").textContent = `Download ${result} (${(blob.size / 1000).toFixed(1)} KB)`;
  $("download").hidden = false;
}

$("file").onchange = () => $("file").files.length && take($("file").files[0]);
$("plan").onclick = () => run("Plan", ["plan", model, ...target()]);
$("targets").onclick = () => run("Runtimes", ["targets", model]);
$("convert").onclick = convert;
for (const kind of ["dragover", "drop"])
  addEventListener(kind, (event) => {
    event.preventDefault();
    if (kind === "drop" && event.dataTransfer.files.length && !$("file").disabled)
      take(event.dataTransfer.files[0]);
  });

busy(true);
try {
  const { complete, names, opsets, seconds } = await ask("start", {});
  for (const value of [...opsets, ...names])
    $("known").append(Object.assign(document.createElement("option"), { value }));
  $("incomplete").hidden = complete;
  $("file").disabled = false;
  say(`Ready after ${seconds.toFixed(1)} s. Nothing leaves this computer.`);
} catch (error) {
  say(`The page cannot start: ${error.message}`, "bad");
}
if ("serviceWorker" in navigator)
  navigator.serviceWorker.register("offline.js").then(() => navigator.serviceWorker.ready).then(() => {
    $("offline").textContent = "Works offline.";
  });
