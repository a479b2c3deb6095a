#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds docs/reference/wire.md against the link.

    test_wire.py ROOT

The bytes of tests/golden/link/vectors.txt, which the machine writes, are read here by another
decoder: it knows MessagePack and the page's table of kinds, nothing else. The page's examples are
among them, its tables say what the headers say, and no kind of frame lacks an example.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
PAGE = (ROOT / 'docs/reference/wire.md').read_text(encoding='utf-8')
FRAME = re.compile(r'^\w+ > ([A-Z]+.*)\n((?:    \| .*\n)+)', re.M)


def frames_in(text):
    """Pairs of what is said and the bytes of it; of long frames, the first."""
    for said, lines in FRAME.findall(text):
        words = lines.replace('|', ' ').split()
        yield said, bytes(int(word, 16) for word in words if word != '...')


def table(heading):
    """The rows of the page's table with this first cell."""
    rows = PAGE.split(f'\n| {heading} |', 1)[1].split('\n\n', 1)[0].split('\n')[2:]
    return [[cell.strip().strip('`') for cell in row.strip('|').split('|')] for row in rows]


class Decoder:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, size):
        return int.from_bytes(self.take(size), 'big')

    def text(self, size):
        data = self.take(size)
        shown = size <= 60 and all(32 <= byte < 127 and byte != 39 for byte in data)
        return f"'{data.decode()}'" if shown else f'<{size} bytes>'

    def value(self):
        first = self.number(1)
        if first < 0x80:
            return str(first)
        if first & 0xf0 == 0x90:
            return '[' + ' '.join(self.value() for _ in range(first & 15)) + ']'
        if first & 0xe0 == 0xa0:
            return self.text(first & 31)
        if first in (0xc4, 0xc5):
            return self.text(self.number(first - 0xc3))
        if first in (0xcc, 0xcd, 0xce, 0xcf):
            return str(self.number(1 << (first - 0xcc)))
        raise ValueError(f'a byte {first:02x} that no frame has')


def describe(data, names):
    decoder = Decoder(data)
    length, head, kind = decoder.number(4), decoder.number(1), decoder.number(1)
    said = ' '.join([names[kind]] + [decoder.value() for _ in range((head & 15) - 1)])
    if decoder.at != length + 4 or head & 0xf0 != 0x90:
        raise ValueError(f'{said}: its length is {length}')
    return said


def vectors_are_what_they_say():
    names = {int(row[0], 16): row[1] for row in table('kind')}
    vectors = list(frames_in((ROOT / 'tests/golden/link/vectors.txt').read_text()))
    for said, data in vectors:
        assert describe(data, names) == said, f'{data.hex()} is {describe(data, names)}, not {said}'
    missing = set(names.values()) - {said.split()[0] for said, _ in vectors}
    assert not missing, f'no vector of {missing}'


def examples_are_vectors():
    vectors = list(frames_in((ROOT / 'tests/golden/link/vectors.txt').read_text()))
    examples = list(frames_in(PAGE))
    for example in examples:
        assert example in vectors, f'{example[0]}: the machine does not say this'
    missing = {row[1] for row in table('kind')} - {said.split()[0] for said, _ in examples}
    assert not missing, f'no example of {missing}'


def kinds_are_those_of_the_machine():
    text = (ROOT / 'src/wire/link_inner.h').read_text()
    text = text.split('enum mare__link_kind {', 1)[1].split('};', 1)[0]
    number, kinds = 0, {}
    for name, value in re.findall(r'MARE__FRAME_(\w+)(?: = (0x\w+))?,', text):
        number = int(value, 16) if value else number + 1
        kinds[name] = number
    for name in ('COUNTED', 'SKIPPED', 'KINDS'):
        del kinds[name]
    assert kinds == {row[1]: int(row[0], 16) for row in table('kind')}


def codes_are_those_of_the_machine():
    text = (ROOT / 'src/wire/link.h').read_text(encoding='utf-8')
    codes = re.findall(r'X\(\w+, (\d+), "(\w+)", "([^"]*)"\)', text)
    assert codes and [list(code) for code in codes] == table('code')


def limits_are_those_of_the_machine():
    text = (ROOT / 'src/wire/link.h').read_text(encoding='utf-8')
    stated = ' '.join(row[1] for row in table('limit'))
    for name in ('HELLO_MOST', 'FRAME_LEAST', 'FRAME_MOST', 'TEXT_MOST', 'BEAT_MOST'):
        value = re.search(rf'MARE__LINK_{name} = (\d+)(?: << (\d+))?,', text)
        number = int(value[1]) << int(value[2] or 0)
        assert re.search(rf'\b{number}\b', stated), f'{name} is {number}'


TESTS = [vectors_are_what_they_say, examples_are_vectors, kinds_are_those_of_the_machine,
         codes_are_those_of_the_machine, limits_are_those_of_the_machine]


def main():
    failed = 0
    print(f'1..{len(TESTS)}')
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            print(f'ok {number} - {test.__name__}')
        except (AssertionError, ValueError, KeyError, IndexError) as error:
            failed += 1
            print(f'# {error!r}\nnot ok {number} - {test.__name__}')
    sys.exit(failed > 0)


main()
