# SPDX-License-Identifier: MIT
"""Ports for programs that cannot be told to choose one."""
import random
import socket


def free_port(kind=socket.SOCK_STREAM):
    """None of those that the system gives to whoever does not care: by the time a program has
    started, it would be another's."""
    while True:
        port = random.randrange(10240, 32768)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(('127.0.0.1', port))
                return port
            except OSError:
                pass  # somebody has it
