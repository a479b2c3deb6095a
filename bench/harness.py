# SPDX-License-Identifier: MIT
"""What the table and the plots share: where programs are, how one is run, what machine this is.

Every measured program prints its figures as lines "name value". A program that is not there is
Absent, which is an answer and not a failure: a peer may simply not be installed.
"""
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
OUT = BENCH / "out"


class Absent(Exception):
    """The program does not exist on this machine; the text says how to get it."""


class NotBuilt(Absent):
    """One of our own programs is not there: not a circumstance but a failure."""


class Failed(Exception):
    """The program ran and did not give its figures."""


def parse(text):
    figures = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            try:
                figures[words[0]] = float(words[1])
            except ValueError:
                pass
    return figures


def run(command, env=None, timeout=600):
    """Runs a program and returns its figures."""
    command = [str(word) for word in command]
    name = " ".join(Path(word).name if word.startswith("/") else word for word in command)
    try:
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: no end after {timeout} s") from None
    except OSError as error:
        raise Failed(f"{name}: {error.strerror}") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
        raise Failed(f"{name}: {how}: {last}")
    figures = parse(done.stdout)
    if not figures:
        raise Failed(f"{name}: printed no figure")
    return figures


def settle(port, seconds=5):
    """Waits until somebody listens on the port."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise Failed(f"nobody listens on port {port}")


class Tools:
    """Finds the floors, the peers and the runtime; compiles a peer when it is first asked for."""

    def __init__(self, build, mare=None):
        self.build = Path(build).resolve()
        path = mare or os.environ.get("MARE") or self.build / "mare"
        self.mare_path = Path(shutil.which(str(path)) or path).resolve()
        self.compiled = {}

    def floor(self, name, *arguments):
        program = self.build / "bench" / f"floor_{name}"
        if not program.exists():
            raise NotBuilt("not built: make")
        return run([program, *arguments])

    def mare(self, script, *arguments, timeout=600):
        if not self.mare_path.exists():
            raise NotBuilt("not built: make")
        return run([self.mare_path, BENCH / script, *arguments], timeout=timeout)

    def lua(self, script, *arguments):
        program = shutil.which("lua5.4")
        if program is None:
            raise Absent("lua5.4 is not installed")
        return run([program, BENCH / script, *arguments])

    def erlang_command(self, name, *arguments, cores=None):
        """Compiled if need be; on so many scheduler threads, or one a core."""
        self.compile("erlang", name, "erlc", lambda source, place: ["erlc", "-o", place, source])
        threads = ["+S", cores] if cores else []
        return [str(word) for word in [
            "erl", *threads, "+P", "2000000", "-noshell", "-noinput", "-pa", OUT / "peers",
            "-run", name, "main", *arguments]]

    def erlang(self, name, *arguments, cores=1, timeout=600, env=None):
        return run(self.erlang_command(name, *arguments, cores=cores), timeout=timeout, env=env)

    def go_command(self, name, *arguments):
        self.compile("go", name, "go",
                     lambda source, place: ["go", "build", "-o", place / name, source])
        return [str(word) for word in [OUT / "peers" / name, *arguments]]

    def go(self, name, *arguments, cores=1, timeout=600):
        return run(self.go_command(name, *arguments), timeout=timeout,
                   env={"GOMAXPROCS": str(cores)} if cores else None)

    def java(self, name, *arguments):
        self.compile("java", name, "javac", lambda source, place: ["javac", "-d", place, source])
        return run(["java", "-cp", OUT / "peers", name, *arguments])

    def compile(self, language, name, compiler, command):
        if shutil.which(compiler) is None:
            raise Absent("not installed: make bench-peers")
        if (language, name) in self.compiled:
            return
        place = OUT / "peers"
        place.mkdir(parents=True, exist_ok=True)
        extension = {"erlang": "erl", "go": "go", "java": "java"}[language]
        source = BENCH / "peers" / language / f"{name}.{extension}"
        done = subprocess.run([str(word) for word in command(source, place)],
                              cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{source.name} does not compile: {(done.stdout + done.stderr).strip()}")
        self.compiled[language, name] = True


def summary(samples):
    """Median, least and greatest of the samples, and the samples themselves."""
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples),
            "samples": samples}


def first_line(path, key):
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return ""


def available_bytes():
    words = first_line("/proc/meminfo", "MemAvailable").split()
    return int(words[0]) * 1024 if words else 0


def machine():
    words = first_line("/proc/meminfo", "MemTotal").split()
    return {
        "processor": first_line("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(int(words[0]) / 2**20, 1) if words else None,
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


class Progress:
    """One line on a terminal's stderr that says what runs; silent elsewhere."""

    def __init__(self):
        self.shown = sys.stderr.isatty()

    def say(self, text):
        if self.shown:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + text[:width], end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
