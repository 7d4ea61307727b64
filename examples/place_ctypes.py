#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The placement library from Python, by ctypes alone.

    from place_ctypes import Map
    Map("rendezvous", [("a", 1.0), ("b", 2.0)]).lookup("order-17", 2)

usage: place_ctypes.py KEY...
"""

import ctypes
import ctypes.util
import os
import pathlib
import sys


class Node(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("zone", ctypes.c_char_p),
        ("weight", ctypes.c_uint64),
        ("position", ctypes.c_uint32),
        ("has_position", ctypes.c_uint32),
    ]


class Config(ctypes.Structure):
    _fields_ = [
        ("strategy", ctypes.c_char_p),
        ("hash", ctypes.c_void_p),
        ("partitions", ctypes.c_uint64),
        ("spread", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
    ]


class Key(ctypes.Structure):
    _fields_ = [("bits", ctypes.c_uint64)]


class Except(ctypes.Structure):
    _fields_ = [("nodes", ctypes.POINTER(ctypes.c_uint32)), ("count", ctypes.c_size_t)]


def find() -> str:
    """The library: as TRYST_PLACE_LIBRARY says, installed, or as built in the tree that this file lies in."""
    built = pathlib.Path(__file__).resolve().parent.parent / "build" / "src" / "libtryst-place.so.1"
    found = os.environ.get("TRYST_PLACE_LIBRARY") or ctypes.util.find_library("tryst-place")
    if not found and not built.exists():
        sys.exit("libtryst-place is not installed: 'make install', or TRYST_PLACE_LIBRARY=/path/to/libtryst-place.so.1")
    return found or str(built)


def load() -> ctypes.CDLL:
    library = ctypes.CDLL(find())
    size, block = ctypes.c_size_t, ctypes.c_void_p
    library.tryst_place_map_size.restype = size
    library.tryst_place_map_size.argtypes = [ctypes.POINTER(Config), ctypes.POINTER(Node), size]
    library.tryst_place_map_init.argtypes = [block, size, ctypes.POINTER(Config), ctypes.POINTER(Node), size, ctypes.POINTER(size)]
    library.tryst_place_status_text.restype = ctypes.c_char_p
    library.tryst_place_key_of_id.restype = Key
    library.tryst_place_key_of_id.argtypes = [block, ctypes.c_uint64]
    library.tryst_place_key_of_text.restype = Key
    library.tryst_place_key_of_text.argtypes = [block, ctypes.c_char_p, size]
    library.tryst_place_workspace_size.restype = size
    library.tryst_place_workspace_size.argtypes = [block, size]
    library.tryst_place_lookup.restype = size
    library.tryst_place_lookup.argtypes = [block, Key, size, ctypes.POINTER(ctypes.c_uint32), block]
    library.tryst_place_lookup_except.restype = size
    library.tryst_place_lookup_except.argtypes = [
        block, Key, size, ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(Except), block,
    ]
    return library


class Map:
    """Nodes are names, or (name, weight), or Node."""

    library: ctypes.CDLL | None = None

    def __init__(self, strategy: str, nodes: list, partitions: int = 0, spread: int = 0):
        Map.library = Map.library or load()
        self.nodes = (Node * len(nodes))(*map(self.node, nodes))
        config = Config(strategy.encode(), None, partitions, spread, 0)
        size = self.library.tryst_place_map_size(config, self.nodes, len(nodes))
        self.block = ctypes.create_string_buffer(size)
        fault = ctypes.c_size_t()
        status = self.library.tryst_place_map_init(self.block, size, config, self.nodes, len(nodes), fault)
        if status != 0:
            raise ValueError(self.library.tryst_place_status_text(status).decode())
        need = self.library.tryst_place_workspace_size(self.block, len(nodes))
        self.workspace = ctypes.create_string_buffer(need + 1)
        self.found = (ctypes.c_uint32 * len(nodes))()

    @staticmethod
    def node(given) -> Node:
        if isinstance(given, Node):
            return given
        if not isinstance(given, tuple):
            return Node(given.encode(), None, 0, 0, 0)
        name, weight = given
        return Node(name.encode(), None, round(weight * 2**32) or 1, 0, 0)  # 0 would mean: not given

    def key(self, key: str | bytes | int) -> Key:
        if isinstance(key, int):
            return self.library.tryst_place_key_of_id(self.block, key)
        text = key.encode() if isinstance(key, str) else key
        return self.library.tryst_place_key_of_text(self.block, text, len(text))

    def lookup(self, key: str | bytes | int, want: int, excluded: tuple[int, ...] = ()) -> list[int]:
        """The indexes of the nodes that hold the key, in order."""
        if excluded:
            out = Except((ctypes.c_uint32 * len(excluded))(*excluded), len(excluded))
            count = self.library.tryst_place_lookup_except(self.block, self.key(key), want, self.found, out, self.workspace)
        else:
            count = self.library.tryst_place_lookup(self.block, self.key(key), want, self.found, self.workspace)
        return self.found[:count]


def main() -> None:
    names = ["a", "b", "c"]
    placement = Map("rendezvous", names)
    for key in sys.argv[1:] or ["order-17"]:
        print(key, *(names[i] for i in placement.lookup(key, 2)), sep="\t")


if __name__ == "__main__":
    main()
