// SPDX-License-Identifier: Apache-2.0
// Runs models in onnxruntime-web, one for each line of stdin: {"model": PATH, "inputs": VALUES}.
// VALUES are {"name", "type", "dims", "data"} with the bytes in base64; the answer has the outputs.

const fs = require("fs");
const path = require("path");
const readline = require("readline");

const home = path.join(process.argv[2], "node_modules", "onnxruntime-web");
const ort = require(home);
ort.env.logLevel = "fatal";
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = path.join(home, "dist") + path.sep;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
  bool: Uint8Array,
};

function given({ type, dims, data }) {
  if (type === "string") return new ort.Tensor("string", data, dims);
  const bytes = Uint8Array.from(Buffer.from(data, "base64"));
  return new ort.Tensor(type, new ARRAYS[type](bytes.buffer), dims);
}

function found({ type, dims, data }) {
  if (type === "string") return { type, dims, data };
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return { type, dims, data: bytes.toString("base64") };
}

async function run({ model, inputs }) {
  let session;
  try {
    session = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(model)));
  } catch (failure) {
    return { unloaded: String(failure) };
  }
  try {
    const feed = Object.fromEntries(inputs.map((one) => [one.name, given(one)]));
    const results = Object.entries(await session.run(feed));
    return { outputs: Object.fromEntries(results.map(([name, one]) => [name, found(one)])) };
  } catch (failure) {
    return { failed: String(failure) };
  } finally {
    await (session.release ? session.release() : session.handler.dispose()); // memory is scarce
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write("@@" + JSON.stringify(await run(JSON.parse(line))) + "\n");
  }
})();
