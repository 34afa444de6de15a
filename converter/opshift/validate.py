"""What is wrong with a model before it is converted, in sentences that name the thing."""

from __future__ import annotations

from onnx import ModelProto

from opshift import check, schemas
from opshift.errors import InvalidModel
from opshift.registry import Registry
from opshift.scope import Document


def header(model: ModelProto) -> None:
    """Refuses what cannot even be opened."""
    if not model.HasField("graph"):
        raise InvalidModel("the model has no graph; is it an ONNX model?")
    if not model.opset_import:
        raise InvalidModel("the model imports no operator set; add an opset_import")


def whole(document: Document, adapters: Registry, view: bytes | ModelProto) -> None:
    """Refuses a model that breaks the rules of its own versions."""
    error = check.whole(view, full=False)
    if error is not None and not tolerated(document, adapters):
        raise InvalidModel(f"the model is not valid as it is: {error}")


def tolerated(document: Document, adapters: Registry) -> bool:
    """Whether the model holds operators that the checker rejects and conversion knows."""
    for root in document.roots:
        for domain, op in root.index:
            version = root.imports.get(domain)
            schema = schemas.schema(domain, op, version) if version else None
            if schema is not None and schema.deprecated:
                return True
            if not schemas.history(domain, op) and adapters.retired(domain, op):
                return True
    return False
