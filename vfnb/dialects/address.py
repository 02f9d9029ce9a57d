"""Where a raw slice lies inside the buffer it was cut from."""

from __future__ import annotations

import ctypes

__all__ = ["address"]


class _Buffer(ctypes.Structure):
    """`Py_buffer` of the C API."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_Buffer)]


def address(value: object) -> int:
    """The address of the first byte of a bytes-like object; the object must outlive its use."""
    view = _Buffer()
    _get(value, ctypes.byref(view), 0)
    start = view.buf
    _release(ctypes.byref(view))
    return int(start or 0)
