"""The process in which ONNX's own C++ code works on a model: what it is asked is ``infer`` or ``inline``."""

from __future__ import annotations

from taso_py.processes.isolated import serve

CHILD = "taso_py.onnx_io.child"
"""The name of this module where another asks it."""


def _made(words: tuple[str, ...], given: bytes) -> bytes:
    """The model with types inferred, or with its functions inlined."""
    import onnx.inliner
    import onnx.shape_inference

    model = onnx.load_model_from_string(given)
    if words == ("inline",):
        made = onnx.inliner.inline_local_functions(model)
    else:
        made = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    found: bytes = made.SerializeToString()
    return found


if __name__ == "__main__":
    serve(_made)
