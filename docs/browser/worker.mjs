// Python with opshift, away from the page so that the page stays responsive.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const FOLDER = "/models";
let python, session;

async function start() {
  const began = performance.now();
  const parts = await (await fetch("parts.json")).json();
  const bytes = parts.archives.map(async (one) => [one, await (await fetch(one.name)).arrayBuffer()]);
  python = await loadPyodide();
  const place = python.runPython("import site; site.getsitepackages()[0]");
  for (const [one, buffer] of await Promise.all(bytes))
    python.unpackArchive(buffer, one.format, { extractDir: place });
  python.FS.writeFile(place + "/session.py", await (await fetch("session.py")).text());
  session = python.pyimport("session");
  const complete = session.start(FOLDER);
  const targets = JSON.parse(session.run(["targets", "--output-format", "json"])).text;
  const names = JSON.parse(targets).targets.map((one) => one.name + one.versions);
  return { complete, names, opsets: parts.opsets, seconds: (performance.now() - began) / 1000 };
}

const work = {
  start,
  write: ({ name, bytes }) => python.FS.writeFile(`${FOLDER}/${name}`, new Uint8Array(bytes)),
  remove: ({ name }) => python.FS.unlink(`${FOLDER}/${name}`),
  run: ({ words }) => JSON.parse(session.run(words)),
  read: ({ name }) => python.FS.readFile(`${FOLDER}/${name}`),
};

let before = Promise.resolve();
self.onmessage = ({ data: { id, what, given } }) => {
  before = before.then(async () => {
    try {
      self.postMessage({ id, answer: await work[what](given) });
    } catch (error) {
      self.postMessage({ id, error: String(error.message ?? error) });
    }
  });
};
