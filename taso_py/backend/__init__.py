"""ONNX Runtime behind a process border: the only package that imports ``onnxruntime``, and only in the child.

A caller's process never loads ONNX Runtime: its global thread pool can be sized once per process and breaks
later default sessions, and a kernel that crashes takes its process along.
"""
