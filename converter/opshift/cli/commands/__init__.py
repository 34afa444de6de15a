"""One command in each module, called `command`; none imports onnx before it runs."""
