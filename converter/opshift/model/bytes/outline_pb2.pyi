from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outline(_message.Message):
    __slots__ = ("graph", "training_info", "functions", "configuration")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    TRAINING_INFO_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    graph: Graph
    training_info: Training
    functions: Function
    configuration: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, graph: _Optional[_Union[Graph, _Mapping]] = ..., training_info: _Optional[_Union[Training, _Mapping]] = ..., functions: _Optional[_Union[Function, _Mapping]] = ..., configuration: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Training(_message.Message):
    __slots__ = ("initialization", "algorithm")
    INITIALIZATION_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    initialization: Graph
    algorithm: Graph
    def __init__(self, initialization: _Optional[_Union[Graph, _Mapping]] = ..., algorithm: _Optional[_Union[Graph, _Mapping]] = ...) -> None: ...

class Function(_message.Message):
    __slots__ = ("node", "attribute_proto", "value_info", "overload", "metadata_props")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_PROTO_FIELD_NUMBER: _ClassVar[int]
    VALUE_INFO_FIELD_NUMBER: _ClassVar[int]
    OVERLOAD_FIELD_NUMBER: _ClassVar[int]
    METADATA_PROPS_FIELD_NUMBER: _ClassVar[int]
    node: Node
    attribute_proto: Attribute
    value_info: Value
    overload: _containers.RepeatedScalarFieldContainer[bytes]
    metadata_props: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., attribute_proto: _Optional[_Union[Attribute, _Mapping]] = ..., value_info: _Optional[_Union[Value, _Mapping]] = ..., overload: _Optional[_Iterable[bytes]] = ..., metadata_props: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Graph(_message.Message):
    __slots__ = ("node", "initializer", "input", "output", "value_info", "quantization_annotation", "sparse_initializer", "metadata_props")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    VALUE_INFO_FIELD_NUMBER: _ClassVar[int]
    QUANTIZATION_ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    SPARSE_INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    METADATA_PROPS_FIELD_NUMBER: _ClassVar[int]
    node: Node
    initializer: Tensor
    input: Value
    output: Value
    value_info: Value
    quantization_annotation: _containers.RepeatedScalarFieldContainer[bytes]
    sparse_initializer: Sparse
    metadata_props: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., initializer: _Optional[_Union[Tensor, _Mapping]] = ..., input: _Optional[_Union[Value, _Mapping]] = ..., output: _Optional[_Union[Value, _Mapping]] = ..., value_info: _Optional[_Union[Value, _Mapping]] = ..., quantization_annotation: _Optional[_Iterable[bytes]] = ..., sparse_initializer: _Optional[_Union[Sparse, _Mapping]] = ..., metadata_props: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("op_type", "attribute", "overload", "metadata_props", "device_configurations")
    OP_TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    OVERLOAD_FIELD_NUMBER: _ClassVar[int]
    METADATA_PROPS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_CONFIGURATIONS_FIELD_NUMBER: _ClassVar[int]
    op_type: _containers.RepeatedScalarFieldContainer[bytes]
    attribute: Attribute
    overload: _containers.RepeatedScalarFieldContainer[bytes]
    metadata_props: _containers.RepeatedScalarFieldContainer[bytes]
    device_configurations: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, op_type: _Optional[_Iterable[bytes]] = ..., attribute: _Optional[_Union[Attribute, _Mapping]] = ..., overload: _Optional[_Iterable[bytes]] = ..., metadata_props: _Optional[_Iterable[bytes]] = ..., device_configurations: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("i", "t", "g", "tensors", "graphs", "tp", "type_protos", "type", "ref_attr_name", "sparse_tensor", "sparse_tensors")
    I_FIELD_NUMBER: _ClassVar[int]
    T_FIELD_NUMBER: _ClassVar[int]
    G_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    TP_FIELD_NUMBER: _ClassVar[int]
    TYPE_PROTOS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REF_ATTR_NAME_FIELD_NUMBER: _ClassVar[int]
    SPARSE_TENSOR_FIELD_NUMBER: _ClassVar[int]
    SPARSE_TENSORS_FIELD_NUMBER: _ClassVar[int]
    i: _containers.RepeatedScalarFieldContainer[int]
    t: Tensor
    g: Graph
    tensors: Tensor
    graphs: Graph
    tp: Type
    type_protos: Type
    type: _containers.RepeatedScalarFieldContainer[int]
    ref_attr_name: _containers.RepeatedScalarFieldContainer[bytes]
    sparse_tensor: Sparse
    sparse_tensors: Sparse
    def __init__(self, i: _Optional[_Iterable[int]] = ..., t: _Optional[_Union[Tensor, _Mapping]] = ..., g: _Optional[_Union[Graph, _Mapping]] = ..., tensors: _Optional[_Union[Tensor, _Mapping]] = ..., graphs: _Optional[_Union[Graph, _Mapping]] = ..., tp: _Optional[_Union[Type, _Mapping]] = ..., type_protos: _Optional[_Union[Type, _Mapping]] = ..., type: _Optional[_Iterable[int]] = ..., ref_attr_name: _Optional[_Iterable[bytes]] = ..., sparse_tensor: _Optional[_Union[Sparse, _Mapping]] = ..., sparse_tensors: _Optional[_Union[Sparse, _Mapping]] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("data_type", "name", "data_location", "metadata_props")
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_LOCATION_FIELD_NUMBER: _ClassVar[int]
    METADATA_PROPS_FIELD_NUMBER: _ClassVar[int]
    data_type: _containers.RepeatedScalarFieldContainer[int]
    name: _containers.RepeatedScalarFieldContainer[bytes]
    data_location: _containers.RepeatedScalarFieldContainer[int]
    metadata_props: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, data_type: _Optional[_Iterable[int]] = ..., name: _Optional[_Iterable[bytes]] = ..., data_location: _Optional[_Iterable[int]] = ..., metadata_props: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Sparse(_message.Message):
    __slots__ = ("values", "indices")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    values: Tensor
    indices: Tensor
    def __init__(self, values: _Optional[_Union[Tensor, _Mapping]] = ..., indices: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("name", "type", "metadata_props")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_PROPS_FIELD_NUMBER: _ClassVar[int]
    name: _containers.RepeatedScalarFieldContainer[bytes]
    type: Type
    metadata_props: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, name: _Optional[_Iterable[bytes]] = ..., type: _Optional[_Union[Type, _Mapping]] = ..., metadata_props: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Type(_message.Message):
    __slots__ = ("tensor_type", "sequence_type", "map_type", "sparse_tensor_type", "optional_type")
    TENSOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    MAP_TYPE_FIELD_NUMBER: _ClassVar[int]
    SPARSE_TENSOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    tensor_type: Element
    sequence_type: Inner
    map_type: Map
    sparse_tensor_type: Element
    optional_type: Inner
    def __init__(self, tensor_type: _Optional[_Union[Element, _Mapping]] = ..., sequence_type: _Optional[_Union[Inner, _Mapping]] = ..., map_type: _Optional[_Union[Map, _Mapping]] = ..., sparse_tensor_type: _Optional[_Union[Element, _Mapping]] = ..., optional_type: _Optional[_Union[Inner, _Mapping]] = ...) -> None: ...

class Element(_message.Message):
    __slots__ = ("elem_type",)
    ELEM_TYPE_FIELD_NUMBER: _ClassVar[int]
    elem_type: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, elem_type: _Optional[_Iterable[int]] = ...) -> None: ...

class Inner(_message.Message):
    __slots__ = ("elem_type",)
    ELEM_TYPE_FIELD_NUMBER: _ClassVar[int]
    elem_type: Type
    def __init__(self, elem_type: _Optional[_Union[Type, _Mapping]] = ...) -> None: ...

class Map(_message.Message):
    __slots__ = ("key_type", "value_type")
    KEY_TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUE_TYPE_FIELD_NUMBER: _ClassVar[int]
    key_type: _containers.RepeatedScalarFieldContainer[int]
    value_type: Type
    def __init__(self, key_type: _Optional[_Iterable[int]] = ..., value_type: _Optional[_Union[Type, _Mapping]] = ...) -> None: ...

class Listing(_message.Message):
    __slots__ = ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string", "graph", "opset_import", "metadata_props", "training_info", "functions")
    IR_VERSION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_NAME_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_VERSION_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    DOC_STRING_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    OPSET_IMPORT_FIELD_NUMBER: _ClassVar[int]
    METADATA_PROPS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_INFO_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    ir_version: int
    producer_name: bytes
    producer_version: bytes
    domain: bytes
    model_version: int
    doc_string: bytes
    graph: ListedGraph
    opset_import: _containers.RepeatedCompositeFieldContainer[Import]
    metadata_props: _containers.RepeatedCompositeFieldContainer[Entry]
    training_info: _containers.RepeatedCompositeFieldContainer[ListedTraining]
    functions: _containers.RepeatedCompositeFieldContainer[ListedFunction]
    def __init__(self, ir_version: _Optional[int] = ..., producer_name: _Optional[bytes] = ..., producer_version: _Optional[bytes] = ..., domain: _Optional[bytes] = ..., model_version: _Optional[int] = ..., doc_string: _Optional[bytes] = ..., graph: _Optional[_Union[ListedGraph, _Mapping]] = ..., opset_import: _Optional[_Iterable[_Union[Import, _Mapping]]] = ..., metadata_props: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., training_info: _Optional[_Iterable[_Union[ListedTraining, _Mapping]]] = ..., functions: _Optional[_Iterable[_Union[ListedFunction, _Mapping]]] = ...) -> None: ...

class Import(_message.Message):
    __slots__ = ("domain", "version")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    domain: bytes
    version: int
    def __init__(self, domain: _Optional[bytes] = ..., version: _Optional[int] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class ListedTraining(_message.Message):
    __slots__ = ("initialization", "algorithm")
    INITIALIZATION_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    initialization: ListedGraph
    algorithm: ListedGraph
    def __init__(self, initialization: _Optional[_Union[ListedGraph, _Mapping]] = ..., algorithm: _Optional[_Union[ListedGraph, _Mapping]] = ...) -> None: ...

class ListedFunction(_message.Message):
    __slots__ = ("name", "node", "opset_import", "domain", "attribute_proto", "overload")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OPSET_IMPORT_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_PROTO_FIELD_NUMBER: _ClassVar[int]
    OVERLOAD_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    node: _containers.RepeatedCompositeFieldContainer[ListedNode]
    opset_import: _containers.RepeatedCompositeFieldContainer[Import]
    domain: bytes
    attribute_proto: Graphs
    overload: bytes
    def __init__(self, name: _Optional[bytes] = ..., node: _Optional[_Iterable[_Union[ListedNode, _Mapping]]] = ..., opset_import: _Optional[_Iterable[_Union[Import, _Mapping]]] = ..., domain: _Optional[bytes] = ..., attribute_proto: _Optional[_Union[Graphs, _Mapping]] = ..., overload: _Optional[bytes] = ...) -> None: ...

class ListedGraph(_message.Message):
    __slots__ = ("node", "initializer", "input", "output", "sparse_initializer")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SPARSE_INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedCompositeFieldContainer[ListedNode]
    initializer: _containers.RepeatedCompositeFieldContainer[ListedTensor]
    input: _containers.RepeatedCompositeFieldContainer[ListedValue]
    output: _containers.RepeatedCompositeFieldContainer[ListedValue]
    sparse_initializer: _containers.RepeatedCompositeFieldContainer[Empty]
    def __init__(self, node: _Optional[_Iterable[_Union[ListedNode, _Mapping]]] = ..., initializer: _Optional[_Iterable[_Union[ListedTensor, _Mapping]]] = ..., input: _Optional[_Iterable[_Union[ListedValue, _Mapping]]] = ..., output: _Optional[_Iterable[_Union[ListedValue, _Mapping]]] = ..., sparse_initializer: _Optional[_Iterable[_Union[Empty, _Mapping]]] = ...) -> None: ...

class ListedTensor(_message.Message):
    __slots__ = ("dims", "data_type", "external_data")
    DIMS_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_DATA_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedScalarFieldContainer[int]
    data_type: int
    external_data: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, dims: _Optional[_Iterable[int]] = ..., data_type: _Optional[int] = ..., external_data: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class ListedValue(_message.Message):
    __slots__ = ("name", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    type: ListedType
    def __init__(self, name: _Optional[bytes] = ..., type: _Optional[_Union[ListedType, _Mapping]] = ...) -> None: ...

class ListedType(_message.Message):
    __slots__ = ("tensor_type",)
    TENSOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    tensor_type: ListedElement
    def __init__(self, tensor_type: _Optional[_Union[ListedElement, _Mapping]] = ...) -> None: ...

class ListedElement(_message.Message):
    __slots__ = ("elem_type", "shape")
    ELEM_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    elem_type: int
    shape: ListedShape
    def __init__(self, elem_type: _Optional[int] = ..., shape: _Optional[_Union[ListedShape, _Mapping]] = ...) -> None: ...

class ListedShape(_message.Message):
    __slots__ = ("dim",)
    DIM_FIELD_NUMBER: _ClassVar[int]
    dim: _containers.RepeatedCompositeFieldContainer[ListedDimension]
    def __init__(self, dim: _Optional[_Iterable[_Union[ListedDimension, _Mapping]]] = ...) -> None: ...

class ListedDimension(_message.Message):
    __slots__ = ("dim_value", "dim_param")
    DIM_VALUE_FIELD_NUMBER: _ClassVar[int]
    DIM_PARAM_FIELD_NUMBER: _ClassVar[int]
    dim_value: int
    dim_param: bytes
    def __init__(self, dim_value: _Optional[int] = ..., dim_param: _Optional[bytes] = ...) -> None: ...

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListedNode(_message.Message):
    __slots__ = ("op_type", "attribute", "domain", "overload")
    OP_TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    OVERLOAD_FIELD_NUMBER: _ClassVar[int]
    op_type: bytes
    attribute: Graphs
    domain: bytes
    overload: bytes
    def __init__(self, op_type: _Optional[bytes] = ..., attribute: _Optional[_Union[Graphs, _Mapping]] = ..., domain: _Optional[bytes] = ..., overload: _Optional[bytes] = ...) -> None: ...

class Graphs(_message.Message):
    __slots__ = ("g", "graphs")
    G_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    g: _containers.RepeatedCompositeFieldContainer[ListedGraph]
    graphs: _containers.RepeatedCompositeFieldContainer[ListedGraph]
    def __init__(self, g: _Optional[_Iterable[_Union[ListedGraph, _Mapping]]] = ..., graphs: _Optional[_Iterable[_Union[ListedGraph, _Mapping]]] = ...) -> None: ...

class Sizes(_message.Message):
    __slots__ = ("graph", "training_info", "functions")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    TRAINING_INFO_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    graph: SizedGraph
    training_info: SizedTraining
    functions: SizedFunction
    def __init__(self, graph: _Optional[_Union[SizedGraph, _Mapping]] = ..., training_info: _Optional[_Union[SizedTraining, _Mapping]] = ..., functions: _Optional[_Union[SizedFunction, _Mapping]] = ...) -> None: ...

class SizedTraining(_message.Message):
    __slots__ = ("initialization", "algorithm")
    INITIALIZATION_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    initialization: SizedGraph
    algorithm: SizedGraph
    def __init__(self, initialization: _Optional[_Union[SizedGraph, _Mapping]] = ..., algorithm: _Optional[_Union[SizedGraph, _Mapping]] = ...) -> None: ...

class SizedFunction(_message.Message):
    __slots__ = ("node", "attribute_proto")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_PROTO_FIELD_NUMBER: _ClassVar[int]
    node: SizedNode
    attribute_proto: SizedAttribute
    def __init__(self, node: _Optional[_Union[SizedNode, _Mapping]] = ..., attribute_proto: _Optional[_Union[SizedAttribute, _Mapping]] = ...) -> None: ...

class SizedGraph(_message.Message):
    __slots__ = ("node", "initializer", "input", "output", "value_info", "sparse_initializer")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    VALUE_INFO_FIELD_NUMBER: _ClassVar[int]
    SPARSE_INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    node: SizedNode
    initializer: _containers.RepeatedCompositeFieldContainer[SizedTensor]
    input: SizedValue
    output: SizedValue
    value_info: SizedValue
    sparse_initializer: SizedSparse
    def __init__(self, node: _Optional[_Union[SizedNode, _Mapping]] = ..., initializer: _Optional[_Iterable[_Union[SizedTensor, _Mapping]]] = ..., input: _Optional[_Union[SizedValue, _Mapping]] = ..., output: _Optional[_Union[SizedValue, _Mapping]] = ..., value_info: _Optional[_Union[SizedValue, _Mapping]] = ..., sparse_initializer: _Optional[_Union[SizedSparse, _Mapping]] = ...) -> None: ...

class SizedNode(_message.Message):
    __slots__ = ("attribute",)
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    attribute: SizedAttribute
    def __init__(self, attribute: _Optional[_Union[SizedAttribute, _Mapping]] = ...) -> None: ...

class SizedAttribute(_message.Message):
    __slots__ = ("t", "g", "tensors", "graphs", "sparse_tensor", "sparse_tensors")
    T_FIELD_NUMBER: _ClassVar[int]
    G_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    SPARSE_TENSOR_FIELD_NUMBER: _ClassVar[int]
    SPARSE_TENSORS_FIELD_NUMBER: _ClassVar[int]
    t: _containers.RepeatedCompositeFieldContainer[SizedTensor]
    g: SizedGraph
    tensors: _containers.RepeatedCompositeFieldContainer[SizedTensor]
    graphs: SizedGraph
    sparse_tensor: SizedSparse
    sparse_tensors: SizedSparse
    def __init__(self, t: _Optional[_Iterable[_Union[SizedTensor, _Mapping]]] = ..., g: _Optional[_Union[SizedGraph, _Mapping]] = ..., tensors: _Optional[_Iterable[_Union[SizedTensor, _Mapping]]] = ..., graphs: _Optional[_Union[SizedGraph, _Mapping]] = ..., sparse_tensor: _Optional[_Union[SizedSparse, _Mapping]] = ..., sparse_tensors: _Optional[_Union[SizedSparse, _Mapping]] = ...) -> None: ...

class SizedSparse(_message.Message):
    __slots__ = ("values", "indices")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[SizedTensor]
    indices: _containers.RepeatedCompositeFieldContainer[SizedTensor]
    def __init__(self, values: _Optional[_Iterable[_Union[SizedTensor, _Mapping]]] = ..., indices: _Optional[_Iterable[_Union[SizedTensor, _Mapping]]] = ...) -> None: ...

class SizedTensor(_message.Message):
    __slots__ = ("dims", "data_type", "int32_data", "int64_data", "raw_data")
    DIMS_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    INT32_DATA_FIELD_NUMBER: _ClassVar[int]
    INT64_DATA_FIELD_NUMBER: _ClassVar[int]
    RAW_DATA_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedScalarFieldContainer[int]
    data_type: int
    int32_data: _containers.RepeatedScalarFieldContainer[int]
    int64_data: _containers.RepeatedScalarFieldContainer[int]
    raw_data: bytes
    def __init__(self, dims: _Optional[_Iterable[int]] = ..., data_type: _Optional[int] = ..., int32_data: _Optional[_Iterable[int]] = ..., int64_data: _Optional[_Iterable[int]] = ..., raw_data: _Optional[bytes] = ...) -> None: ...

class SizedValue(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: SizedType
    def __init__(self, type: _Optional[_Union[SizedType, _Mapping]] = ...) -> None: ...

class SizedType(_message.Message):
    __slots__ = ("tensor_type",)
    TENSOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    tensor_type: SizedElement
    def __init__(self, tensor_type: _Optional[_Union[SizedElement, _Mapping]] = ...) -> None: ...

class SizedElement(_message.Message):
    __slots__ = ("shape",)
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    shape: SizedShape
    def __init__(self, shape: _Optional[_Union[SizedShape, _Mapping]] = ...) -> None: ...

class SizedShape(_message.Message):
    __slots__ = ("dim",)
    DIM_FIELD_NUMBER: _ClassVar[int]
    dim: SizedDimension
    def __init__(self, dim: _Optional[_Union[SizedDimension, _Mapping]] = ...) -> None: ...

class SizedDimension(_message.Message):
    __slots__ = ("dim_value",)
    DIM_VALUE_FIELD_NUMBER: _ClassVar[int]
    dim_value: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dim_value: _Optional[_Iterable[int]] = ...) -> None: ...

class GraphSpans(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, node: _Optional[_Iterable[bytes]] = ...) -> None: ...

class FunctionSpans(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, node: _Optional[_Iterable[bytes]] = ...) -> None: ...
