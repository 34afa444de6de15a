# SPDX-License-Identifier: Apache-2.0
"""Runs models in a runtime of the Python (3.6 or later) that executes this file.

This file does not import opshift. Its folder contains job.json and the inputs of case N of model
M as in<M>_<N>.npz. The program writes arrays to out<M>_<N>.npz, and a line of JSON for each model
to answers<FIRST>.jsonl, so that the models without a line show where a process crashed. FIRST is
the number of models to skip.

To add a runtime, add a function and an entry in RUNTIMES. The function takes a model (with the keys
path, inputs and outputs) and returns a function from inputs to outputs, both by name.
"""
# ruff: noqa: UP032

import os
import sys

if os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
    del sys.path[0]  # modules of this folder would hide modules that the runtime imports

import contextlib
import importlib
import json
import re
import signal
import tempfile
from typing import Any


def onnxruntime(model: Any, optimized: bool = True) -> Any:
    import onnxruntime as ort

    minor = tuple(int(part) for part in ort.__version__.split(".")[:2])
    options = ort.SessionOptions()
    if minor >= (1, 0):
        options.log_severity_level = 4
    if not optimized and minor >= (1, 0):
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    elif not optimized:
        options.set_graph_optimization_level(0)
    more = {"providers": ["CPUExecutionProvider"]} if minor >= (1, 3) else {}
    session = ort.InferenceSession(model["path"], options, **more)
    names = [output.name for output in session.get_outputs()]
    return lambda feed: named(names, session.run(None, feed))


def openvino(model: Any, optimized: bool = True) -> Any:
    try:
        from openvino import Core
    except ImportError:
        from openvino.runtime import Core

    core = Core()
    # float32, because half precision is faster but inexact
    properties = core.get_property("CPU", "SUPPORTED_PROPERTIES")
    exact = {"INFERENCE_PRECISION_HINT": "f32"} if "INFERENCE_PRECISION_HINT" in properties else {}
    core.read_model(model["path"])

    def run(feed: Any) -> Any:
        network = core.read_model(model["path"])
        # positions, because OpenVINO renames the input of a Dropout
        at = {name: i for i, name in enumerate(model["inputs"])}
        at.update((name, i) for i, port in enumerate(network.inputs) for name in port.get_names())
        placed = {at[name]: value for name, value in feed.items()}
        # OpenVINO 2022.1 needs fixed sizes
        network.reshape({i: list(value.shape) for i, value in placed.items()})
        compiled = core.compile_model(network, "CPU", exact)
        request = compiled.create_infer_request()
        # in 2023.0, the dictionary of results repeats the first number of each float16 output
        request.infer(placed)
        outputs = {}  # type: Any
        for i, output in enumerate(compiled.outputs):
            value = request.get_output_tensor(i).data.copy()
            outputs.update((name, value) for name in output.get_names())
        return outputs

    return run


def opencv(model: Any, optimized: bool = True) -> Any:
    import cv2

    net = cv2.dnn.readNetFromONNX(model["path"])
    # without Mat, OpenCV takes an array with three axes for an image
    tensor = getattr(cv2, "Mat", lambda value: value)

    def run(feed: Any) -> Any:
        for name, value in feed.items():
            net.setInput(tensor(value), name)
        names = net.getUnconnectedOutLayersNames()
        outputs = named(names, net.forward(names))
        all_named = all(name in outputs for name in model["outputs"])
        return outputs if all_named else named(model["outputs"], outputs.values())

    return run


TRACT_TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "bool"}
TRACT_TYPES.update(
    (sign + "int" + bits, (sign or "i") + bits)
    for sign in ("", "u")
    for bits in ("8", "16", "32", "64")
)


def tract(model: Any, optimized: bool = True) -> Any:
    import tract as package

    package.onnx().load(model["path"])

    def run(feed: Any) -> Any:
        network = package.onnx().load(model["path"])
        # tract needs the sizes before it builds the network
        for i, name in enumerate(model["inputs"]):
            sizes = [str(size) for size in feed[name].shape]
            network.set_input_fact(i, ",".join([*sizes, TRACT_TYPES[feed[name].dtype.name]]))
        results = network.into_model().into_runnable().run([feed[n] for n in model["inputs"]])
        return named(model["outputs"], [result.to_numpy() for result in results])

    return run


def onnx2torch(model: Any, optimized: bool = True) -> Any:
    import onnx2torch as package
    import torch

    network = package.convert(model["path"]).eval()

    def run(feed: Any) -> Any:
        with torch.no_grad():
            result = network(*[torch.from_numpy(feed[name].copy()) for name in model["inputs"]])
        outputs = result if isinstance(result, (list, tuple)) else [result]
        return named(model["outputs"], [output.numpy() for output in outputs])

    return run


def onnx2tf(model: Any, optimized: bool = True) -> Any:
    import onnx
    import onnx2tf as package
    import tensorflow

    with tempfile.TemporaryDirectory() as folder:  # onnx2tf demands one, although nothing is saved
        network = package.convert(
            input_onnx_file_path=model["path"], output_folder_path=folder,
            keep_shape_absolutely_input_names=list(model["inputs"]), disable_model_save=True,
            non_verbose=True,
        )  # fmt: skip
    graph = onnx.load(model["path"], load_external_data=False).graph
    sizes = {info.name: info.type.tensor_type.shape.dim for info in graph.output}

    def placed(name: str, value: Any) -> Any:
        """Moves the channels, which TensorFlow has last, to their axis in the model."""
        fits = all(d.dim_value in (0, n) for d, n in zip(sizes[name], value.shape))  # noqa: B905
        axes = [0, value.ndim - 1, *range(1, value.ndim - 1)]
        return value if fits or value.ndim < 3 else value.transpose(axes)

    def run(feed: Any) -> Any:
        values = [tensorflow.constant(feed[name]) for name in model["inputs"]]
        result = network(values if len(values) > 1 else values[0], training=False)
        outputs = result if isinstance(result, (list, tuple)) else [result]
        pairs = zip(model["outputs"], outputs)  # noqa: B905
        return {name: placed(name, output.numpy()) for name, output in pairs}

    return run


def iree(model: Any, optimized: bool = True) -> Any:
    import iree.compiler
    import iree.runtime
    import onnx
    from iree.compiler import ir
    from iree.compiler.extras import onnx_importer

    source = onnx.shape_inference.infer_shapes(onnx.load(model["path"]), data_prop=True)
    info = onnx_importer.ModelInfo(source)
    with ir.Context() as context:
        module = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
        code = iree.compiler.compile_str(
            str(module), target_backends=["llvm-cpu"], input_type="onnx",
            extra_args=["--iree-llvmcpu-target-cpu=generic"],
        )  # fmt: skip
    config = iree.runtime.Config("local-sync")
    built = iree.runtime.VmModule.copy_buffer(config.vm_instance, code)
    loaded = iree.runtime.load_vm_module(built, config)
    function = getattr(loaded, source.graph.name)

    def run(feed: Any) -> Any:
        result = function(*[feed[name] for name in model["inputs"]])
        outputs = result if isinstance(result, (list, tuple)) else [result]
        return named(model["outputs"], [output.to_host() for output in outputs])

    return run


def tvm(model: Any, optimized: bool = True) -> Any:
    import numpy
    import onnx
    import tvm as package
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(onnx.load(model["path"]), keep_params_in_input=False)
    device = package.cpu()
    machine = relax.VirtualMachine(package.compile(module, target="llvm"), device)

    def array(value: Any) -> Any:
        return numpy.asarray([item.numpy() for item in value] if is_list(value) else value.numpy())

    def is_list(value: Any) -> bool:
        return isinstance(value, (list, tuple)) or not hasattr(value, "numpy")

    def run(feed: Any) -> Any:
        tensors = [package.runtime.tensor(feed[name], device) for name in model["inputs"]]
        result = machine["main"](*tensors)
        outputs = list(result) if is_list(result) else [result]
        return named(model["outputs"], [array(output) for output in outputs])

    return run


def tinygrad(model: Any, optimized: bool = True) -> Any:
    from tinygrad.nn.onnx import OnnxRunner

    OnnxRunner(model["path"])  # a model that cannot be loaded fails here, not when it runs

    def run(feed: Any) -> Any:
        outputs = OnnxRunner(model["path"])(feed)  # a runner keeps the sizes of its first inputs
        return {name: value.numpy() for name, value in outputs.items()}

    return run


def mnn(model: Any, optimized: bool = True) -> Any:
    import _tools
    import MNN
    import numpy
    from MNN import expr

    path = model["path"] + ".mnn"
    words = ["-f", "ONNX", "--modelFile", model["path"], "--MNNModel", path, "--bizCode", "opshift"]
    _tools.mnnconvert(["mnnconvert", *words, "--keepInputFormat=1"])
    network = MNN.nn.load_module_from_file(path, list(model["inputs"]), list(model["outputs"]))
    types = {"f4": expr.float, "i4": expr.int, "u1": expr.uint8}

    def run(feed: Any) -> Any:
        values = [mnn_array(feed[name]) for name in model["inputs"]]
        variables = [
            expr.const(value, list(value.shape), expr.NCHW, types[value.dtype.str[1:]])
            for value in values
        ]
        result = network.forward(variables)
        outputs = result if isinstance(result, (list, tuple)) else [result]
        variables = [expr.convert(output, expr.NCHW) for output in outputs]
        # copies, because MNN reuses the memory of its variables
        return named(model["outputs"], [numpy.array(variable.read()) for variable in variables])

    return run


def mnn_array(value: Any) -> Any:
    """Casts an array to a type of MNN, which would read the bytes of int64 as int32."""
    import numpy

    kind = "u1" if value.dtype == "uint8" else "f4" if value.dtype.kind == "f" else "i4"
    return numpy.array(value, kind, order="C")


def rknn(model: Any, optimized: bool = True) -> Any:
    import onnx
    from rknn.api import RKNN

    graph = onnx.load(model["path"]).graph
    types = {info.name: info.type.tensor_type for info in graph.input}
    sizes = [[d.dim_value for d in types[name].shape.dim] for name in model["inputs"]]
    network = RKNN(verbose=False)
    network.config(target_platform="rk3588")
    done(network.load_onnx(model["path"], inputs=list(model["inputs"]), input_size_list=sizes))
    done(network.build(do_quantization=False))
    done(network.init_runtime())  # without a device, RKNN runs its simulator

    def run(feed: Any) -> Any:
        values = [feed[name] for name in model["inputs"]]
        forms = ["nchw" if value.ndim == 4 else "undefined" for value in values]
        outputs = network.inference(inputs=values, data_format=forms)
        if outputs is None:
            raise ValueError("the simulator returned no outputs")
        return named(model["outputs"], outputs)

    return run


def done(code: int) -> None:
    """Raises an error if a call of RKNN failed; RKNN has written its message to the log."""
    if code:
        raise ValueError("RKNN returned {}".format(code))


# For each runtime name of `--for`: the package that is imported, and the function that runs it.
RUNTIMES = {
    "onnxruntime": ("onnxruntime", onnxruntime),
    "openvino": ("openvino", openvino),
    "opencv": ("cv2", opencv),
    "tract": ("tract", tract),
    "onnx2torch": ("onnx2torch", onnx2torch),
    "onnx2tf": ("onnx2tf", onnx2tf),
    "iree": ("iree.compiler", iree),
    "tvm": ("tvm", tvm),
    "tinygrad": ("tinygrad", tinygrad),
    "mnn": ("MNN", mnn),
    "rknn-toolkit2": ("rknn.api", rknn),
}  # type: Any


def named(names: Any, values: Any) -> Any:
    return dict(zip(names, values))  # noqa: B905 - Python 3.6


def chosen(requested: str) -> Any:
    """Returns the name and release of the wanted runtime, or of the first that can be imported."""
    errors = []
    for name in [requested] if requested in RUNTIMES else RUNTIMES:
        try:
            package = importlib.import_module(RUNTIMES[name][0])
        except ImportError as error:
            errors.append(sentence(error))
            continue
        return {"runtime": name, "version": release(package)}
    listed = ", ".join(sorted(RUNTIMES))
    reason = errors[0] if requested in RUNTIMES else "none of {} can be imported".format(listed)
    return {"error": reason}


def release(package: Any) -> str:
    """Returns the release of a package without suffixes: 2024.6.0 for 2024.6.0-17404-abc."""
    version = getattr(package, "__version__", "")
    if not version:
        try:
            from importlib import metadata

            top = package.__name__.split(".")[0]
            listed = getattr(metadata, "packages_distributions", dict)()  # type: Any
            version = metadata.version(listed.get(top, [top])[0])
        except ImportError:  # Python 3.7 and below, or a package without metadata
            version = ""
    numbers = re.match(r"\d+(\.\d+)*", str(version))
    return numbers.group() if numbers else str(version)


def encoded(value: Any, arrays: Any) -> Any:
    """Returns a value in JSON form; its arrays are added to `arrays`."""
    import numpy

    if value is None:
        return {"none": True}
    if isinstance(value, dict):
        return {"map": [[plain(key), plain(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [encoded(item, arrays) for item in value]}
    array = numpy.asarray(value)
    name = "a{}".format(len(arrays))
    arrays[name] = array.astype(str) if array.dtype.kind == "O" else array
    return {"array": name}


def plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def sentence(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "no message"
    return "{}: {}".format(type(error).__name__, text)[:500]


def answered(run: Any, folder: str, name: str) -> Any:
    import numpy

    with numpy.load(os.path.join(folder, "in{}.npz".format(name))) as loaded:
        feed = {key: loaded[key] for key in loaded.files}
    feed = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in feed.items()}
    arrays = {}  # type: Any
    outputs = {key: encoded(value, arrays) for key, value in run(feed).items()}
    numpy.savez(os.path.join(folder, "out{}.npz".format(name)), **arrays)
    return outputs


def judged(load: Any, model: Any, folder: str) -> Any:
    """Returns the outputs of a model for each case, or an error message."""
    number = model["number"]
    try:
        run = load(model)
    except Exception as error:
        return {"number": number, "error": sentence(error)}
    cases = []
    for case in range(model["cases"]):
        try:
            cases.append({"outputs": answered(run, folder, "{}_{}".format(number, case))})
        except Exception as error:
            cases.append({"error": sentence(error)})
    return {"number": number, "cases": cases}


def limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    with contextlib.suppress(ValueError, OSError):  # this process has a lower limit already
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, hard))


def limit_time(seconds: float) -> None:
    """Makes the kernel end this process after `seconds`, even in native code."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def main(folder: str, first: int) -> None:
    with open(os.path.join(folder, "job.json")) as file:
        job = json.load(file)
    limit_memory(job["megabytes"])
    limit_time(job["seconds"])
    with open(os.path.join(folder, "answers{}.jsonl".format(first)), "w") as answers:

        def write(answer: Any) -> None:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

        here = chosen(job["runtime"])
        write(here)
        for model in job["models"][first:] if "runtime" in here else []:
            limit_time(job["seconds"])
            write(judged(RUNTIMES[here["runtime"]][1], model, folder))
    os._exit(0)  # some runtimes crash while they are unloaded


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
