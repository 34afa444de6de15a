from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OpsetChangelog(_message.Message):
    __slots__ = ("domains",)
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    domains: _containers.RepeatedCompositeFieldContainer[Domain]
    def __init__(self, domains: _Optional[_Iterable[_Union[Domain, _Mapping]]] = ...) -> None: ...

class Domain(_message.Message):
    __slots__ = ("name", "versions", "documentation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    versions: _containers.RepeatedCompositeFieldContainer[Version]
    documentation: str
    def __init__(self, name: _Optional[str] = ..., versions: _Optional[_Iterable[_Union[Version, _Mapping]]] = ..., documentation: _Optional[str] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("version", "changes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    version: int
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    def __init__(self, version: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("op_type", "deprecated", "replaced_by", "has_function_body", "fingerprint", "types", "inputs", "outputs", "attributes", "experimental")
    OP_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEPRECATED_FIELD_NUMBER: _ClassVar[int]
    REPLACED_BY_FIELD_NUMBER: _ClassVar[int]
    HAS_FUNCTION_BODY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENTAL_FIELD_NUMBER: _ClassVar[int]
    op_type: str
    deprecated: bool
    replaced_by: _containers.RepeatedScalarFieldContainer[str]
    has_function_body: bool
    fingerprint: str
    types: _containers.RepeatedScalarFieldContainer[str]
    inputs: _containers.RepeatedCompositeFieldContainer[Parameter]
    outputs: _containers.RepeatedCompositeFieldContainer[Parameter]
    attributes: _containers.RepeatedCompositeFieldContainer[Attribute]
    experimental: bool
    def __init__(self, op_type: _Optional[str] = ..., deprecated: bool = ..., replaced_by: _Optional[_Iterable[str]] = ..., has_function_body: bool = ..., fingerprint: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., inputs: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ..., experimental: bool = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("name", "type", "option", "rank")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    OPTION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    option: str
    rank: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., option: _Optional[str] = ..., rank: _Optional[str] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("name", "type", "required", "default")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    required: bool
    default: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., required: bool = ..., default: _Optional[str] = ...) -> None: ...
