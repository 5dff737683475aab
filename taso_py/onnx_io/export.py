"""Table -> ONNX model: what the search did not touch leaves exactly as it came.

The result is an onnx-ir model whose untouched weights are the original's tensors, mapped from its files if
they are external.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from taso_py.arrays import Array
from taso_py.graph.table import Node, Table
from taso_py.graph.types import TensorType
from taso_py.onnx_io.artifact import RewrittenModel, external_locations
from taso_py.onnx_io.carry import carry
from taso_py.onnx_io.load import Loaded
from taso_py.onnx_io.nesting import count, nest
from taso_py.onnx_io.ours import free_keys
from taso_py.onnx_io.plan import Folded, GraphSource, KeptNode, New, WritingPlan
from taso_py.onnx_io.returned import whole_proto
from taso_py.onnx_io.spell import UsedNames, onnx_node, spelling
from taso_py.onnx_io.structure import bodies, captured_names
from taso_py.ops.operator import Operator

# Before this IR version every initializer must be a graph input, and graph inputs are not ours to add.
_FIRST_FREE_INITIALIZER_IR = 4
_FOLDED = "superopt.folded"
"""Under this key the `meta` of a computed weight, which is never written, holds its id."""
_TYPE = "superopt.type"
"""Under this key the `meta` of a new value holds its type."""


def export(loaded: Loaded, table: Table, *, provenance: Mapping[str, str] | None = None) -> ir.Model:
    """The ONNX model of a table made from ``loaded``; the same table gives the same model, byte for byte."""
    if _unchanged(loaded, table):
        result = carry(loaded.given, loaded.path)
    else:
        result = loaded.original
        exporting = _Export(loaded, table, result)
        exporting.run()
        if loaded.scopes:
            exporting.nest()
    if provenance is not None:
        free = free_keys(result.metadata_props)
        for key in free.intersection(result.metadata_props):
            del result.metadata_props[key]  # an earlier rewrite of ours, of which they speak
        result.metadata_props.update({key: text for key, text in provenance.items() if key in free})
    return result


def artifact(loaded: Loaded, exported: ir.Model) -> RewrittenModel:
    """The exported model as something that can be written, its weights outside if the original's were."""
    # What is in memory needs no file any more: a model's own may be gone when the result is saved.
    beside = {file: stamp for file, stamp in loaded.stamps.items() if file != loaded.path}
    return RewrittenModel(exported, loaded.path, loaded.external, external_locations(loaded.proto), beside)


def serialize(exported: ir.Model) -> bytes:
    """The model as bytes; external weights stay references."""
    content: bytes = whole_proto(exported).SerializeToString(deterministic=True)
    return content


def folded_weights(exported: ir.Model) -> dict[str, int]:
    """The weights that were computed for an exported model: name -> id."""
    outputs = _computed(exported.graph)
    found = [v for v in (*exported.graph.initializers.values(), *outputs) if _FOLDED in v.meta]
    return {v.name: v.meta[_FOLDED] for v in found if v.name}


def node_count(loaded: Loaded, exported: ir.Model) -> int:
    """Nodes of an exported model, and of the branches in it where ``loaded`` has them lifted."""
    return count(exported.graph) if loaded.scopes else len(exported.graph)


def new_types(exported: ir.Model) -> dict[str, TensorType]:
    """The types of the values that were made for an exported model: name -> type."""
    return {v.name: v.meta[_TYPE] for v in _computed(exported.graph) if v.name and _TYPE in v.meta}


def _computed(graph: ir.Graph) -> list[ir.Value]:
    return [value for one in _graphs(graph) for node in one for value in node.outputs]


def writable(node: Node, table: Table) -> bool:
    """Whether a new node can be written at the model's opset, or is folded into a weight."""
    if not isinstance(node.operator, Operator):
        return False
    inputs = [i for i in node.inputs if i is not None]
    types = [table.values.types[i] for i in inputs]
    if all(i in table.values.constant for i in inputs) and _concrete(node.operator.infer(*types)):
        return True
    return node.operator.write(table.opset, types) is not None


def _concrete(type_: TensorType) -> bool:
    return type_.shape is not None and all(isinstance(d, int) for d in type_.shape)


def _unchanged(loaded: Loaded, table: Table) -> bool:
    return all(table.nodes.get(i, node) is node for i, node in loaded.table.nodes.items())


class _Export:
    def __init__(self, loaded: Loaded, table: Table, result: ir.Model) -> None:
        self.loaded, self.table = loaded, table
        self.graph = result.graph
        self.nodes = list(self.graph)
        self.plan = WritingPlan(loaded, table, self.nodes)
        self.old = {v.name: v for v in (*self.graph.inputs, *self.graph.initializers.values())}
        self.old.update({v.name: v for node in self.nodes for v in node.outputs if v.name})
        self.values: dict[int, ir.Value] = {}
        self.stated: dict[ir.Value, tuple[ir.TypeProtocol | None, ir.Shape | None]] = {}
        """What was said of a value whose name is another's now."""
        self.order: list[ir.Node] = []
        self.value_names, self.node_names = UsedNames(), UsedNames()
        _collect_names(self.graph, self.value_names.taken, self.node_names.taken)
        self.constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self.named_constants = result.ir_version >= _FIRST_FREE_INITIALIZER_IR

    def run(self) -> None:
        for item in self.plan.order:
            match item:
                case GraphSource(value):
                    self.values[value] = self.old[self.loaded.values.names[value]]
                case KeptNode(index, node):
                    self._keep(index, node)
                case Folded(value, array):
                    self._fold(value, array)
                case New(values, node):
                    self._add(values, node)
        for position, output in enumerate(self.table.outputs):
            wanted = self.values[self.plan.resolve(output)]
            if self.graph.outputs[position] is not wanted:
                self.graph.outputs[position] = wanted
        self._redirect_aliases()
        kept = set(self.order)
        dead = [node for node in self.nodes if node not in kept]
        graphs = [body for node in dead for body in bodies(node)]
        for inner in (one for graph in graphs for one in ir.traversal.RecursiveGraphIterator(graph)):
            for position in range(len(inner.inputs)):
                inner.replace_input_with(position, None)  # else what it captures would still have a user
        self.graph.remove(dead, safe=True)
        self.graph.extend(self.order)
        self._drop_initializers()

    def nest(self) -> None:
        """Puts back into branches what was lifted out of them."""
        proto, inside = self.loaded.proto.graph, self.loaded.scopes
        homes = {name: inside.get(name, ()) for node in proto.node for name in node.output if name}
        weights = {tensor.name for tensor in proto.initializer if tensor.name in inside}
        nest(self.graph, homes, weights, self.value_names, self.node_names)

    def _keep(self, index: int, table_node: Node | None) -> None:
        node = self.nodes[index]
        for position, value in enumerate(self.plan.inputs(index, table_node)):
            wanted = None if value is None else self.values[self.plan.resolve(value)]
            if wanted is not None and node.inputs[position] is not wanted:
                node.replace_input_with(position, wanted)
        self.order.append(node)
        for output in node.outputs:
            value = self.loaded.ids.get(output.name or "")
            if value is None:
                continue
            if value in self.values or self._is_replaced(value, index):
                # Somebody else computes this value now, and has its name.
                output.name = self.value_names.fresh(f"{output.name}/unused")
                self.stated[output] = output.type, output.shape  # was said of the value that has the name
                output.type = output.shape = None
            else:
                self.values[value] = output

    def _is_replaced(self, value: int, index: int) -> bool:
        return value in self.plan.claims or (value in self.plan.live and self.plan.item(value) != KeptNode(index))

    def _fold(self, value: int, array: Array) -> None:
        name = self.loaded.values.names.get(value)
        if name is None or value in self.table.outputs:
            source = self._first_source(value)
            folded = self._constant(array, f"{source}/folded")
        else:
            folded = self._constant(array, name, exact=True)
            self._take_over(self.old[name], folded)
        folded.meta[_FOLDED] = value
        self.values[value] = folded
        if value in self.table.outputs:
            self._output_of(value, folded)

    def _output_of(self, value: int, source: ir.Value) -> None:
        old = self.old[self.loaded.values.names[value]]
        output = ir.Value(name=old.name)
        self.order.append(
            ir.Node("", "Identity", [source], outputs=[output], name=self.node_names.fresh(f"{old.name}/Identity"))
        )
        self._take_over(old, output)
        self.values[value] = output

    def _first_source(self, value: int) -> str:
        stack = [value]
        while stack:
            current = stack.pop()
            node = self.plan.node_of(current)
            if node is None:
                return self.loaded.values.names[current]
            stack.extend(i for i in reversed(node.inputs) if i is not None)
        return "constant"

    def _add(self, values: tuple[int, ...], node: Node) -> None:
        operator = node.operator
        types = [self.loaded.values.types[i] for i in node.inputs if i is not None]
        writing = spelling(operator, self.table.opset, types)
        # What only a node reads that nothing reads bears no label.
        label = next((self.plan.labels[v] for v in values if v in self.plan.labels), self._first_source(values[0]))
        base = f"{label}/{writing.op_type}"
        outputs, count = {}, 1
        for value in values:
            other = self.plan.node_of(value)
            assert other is not None
            outputs[other.operator.port] = self.values[value] = self._new_value(value, base)
            count = max(count, other.operator.least_outputs)
        for port in range(count):
            if port not in outputs:
                outputs[port] = ir.Value(name=self.value_names.fresh(f"{base}/unused"))
        operands = [None if i is None else self.values[self.plan.resolve(i)] for i in node.inputs]
        self.order.append(
            onnx_node(
                writing,
                operands,
                lambda array: self._constant(array, f"{base}/constant", shared=True),
                [outputs[port] for port in sorted(outputs)],
                self.node_names.fresh(base),
            )
        )

    def _new_value(self, value: int, base: str) -> ir.Value:
        named = next((out for out, target in self.plan.claims.items() if target == value), value)
        name = self.loaded.values.names.get(named)
        if name is None:
            created = ir.Value(name=self.value_names.fresh(base))
            created.meta[_TYPE] = self.loaded.values.types[value]
            return created
        created = ir.Value(name=name)
        self._take_over(self.old[name], created)
        return created

    def _take_over(self, old: ir.Value, new: ir.Value) -> None:
        """``new`` is ``old`` computed in another way: it has its users and all that the file says of it."""
        new.type, new.shape = self.stated.get(old, (old.type, old.shape))
        new.doc_string = old.doc_string
        new.metadata_props.update(old.metadata_props)
        new.meta.update(old.meta)
        _redirect(old, new)

    def _redirect_aliases(self) -> None:
        """Users of a value that has become another one read that one; most are kept nodes' subgraphs."""
        for value, name in self.loaded.values.names.items():
            target = self.plan.resolve(value)
            if target != value and target in self.values and name in self.old:
                _redirect(self.old[name], self.values[target])

    def _constant(self, array: Array, base: str, *, exact: bool = False, shared: bool = False) -> ir.Value:
        key = (array.dtype.name, array.shape, array.tobytes()) if shared else None
        if key is not None and key in self.constants:
            return self.constants[key]
        name = base if exact else self.value_names.fresh(base)
        value = ir.Value(name=name)
        tensor = ir.tensor(np.asarray(array, order="C"), name=name)
        if self.named_constants:
            value.const_value = tensor
            self.graph.initializers.pop(name, None)
            self.graph.register_initializer(value)
        else:
            attribute = ir.AttrTensor("value", tensor)
            node_name = self.node_names.fresh(f"{name}/Constant")
            self.order.append(ir.Node("", "Constant", [], [attribute], outputs=[value], name=node_name))
        if key is not None:
            self.constants[key] = value
        return value

    def _drop_initializers(self) -> None:
        """Those that the original used and nothing uses any more."""
        named = {name for node in self.order for name in captured_names(node)} | set(self._quantised_by())
        for name, value in list(self.graph.initializers.items()):
            needed = value.uses() or value.is_graph_input() or value.is_graph_output() or name in named
            if not needed and name in self.loaded.used:
                self.graph.initializers.pop(name)

    def _quantised_by(self) -> Iterator[str]:
        """Scales and zero points that the graph's annotations give for its values."""
        made = (output for node in self.order for output in node.outputs)
        for value in (*self.graph.inputs, *self.graph.initializers.values(), *made):
            yield from value.meta.get("quant_parameter_tensor_names", {}).values()


def _redirect(old: ir.Value, new: ir.Value) -> None:
    for use in list(old.uses()):
        placed = use.node.device_configurations
        use.node.replace_input_with(use.idx, new)
        if placed:  # onnx-ir drops what is said of an operand that is gone
            use.node.device_configurations = tuple(_about(new, old, one) for one in placed)


def _about(new: ir.Value, old: ir.Value, placed: ir.NodeDeviceConfiguration) -> ir.NodeDeviceConfiguration:
    specs = (replace(spec, value=new) if spec.value is old else spec for spec in placed.sharding_specs)
    return replace(placed, sharding_specs=tuple(specs))


def _collect_names(graph: ir.Graph, values: set[str], nodes: set[str]) -> None:
    """Names of all values and nodes, subgraphs included."""
    for inner in _graphs(graph):
        values.update(v.name for v in (*inner.inputs, *inner.outputs, *inner.initializers.values()) if v.name)
        for node in inner:
            nodes.add(node.name or "")
            values.update(v.name for v in (*node.inputs, *node.outputs) if v is not None and v.name)


def _graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    yield graph
    yield from graph.subgraphs()
