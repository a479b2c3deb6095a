#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes mutants: algorithms in which one rule at a time can be broken while they run.

    mutate.py tests/sim/mutants/NAME.txt OUT.c OUT.d

A file of mutants names an algorithm and its sources, then for each mutant the rule that it
breaks, in the words of the sources' comments; what is replaced by what; and what a simulation
reports then:

    algorithm central coord/mutex/central.c coord/mutex/arrival.c

    rule a GRANT is accepted only in the epoch of the receiver
    - ready && epoch < c->epoch
    + ready && epoch < c->epoch && msg->kind != GRANT
    breaks EM1 clustered 17

Several pairs of - and + belong to one mutant. The old text stands in the sources once. It is an
expression, or statements if it ends with ; or }, and then declares nothing that is used behind
it. Both stay in the program, and `mare_mutant` chooses: 0 is the algorithm as it is. The numbers
are counted from 1. Behind what breaks: the profile and the seed to begin with, and settings as
`window=2`. A rule that does not stand in a comment of the sources is an error, and so is a text
that is not there once.

    unnoticed because the timer of patience makes up for it

in place of "breaks" is for a rule that no seed was found for, with what is known about it. It is
not tested.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFINITION = re.compile(r'^(?!static|typedef|extern|struct|#|//|/\*| \*)\w[^;={(]*?'
                        r'\b(mare_\w+)(?:\(|\[\] = |\s*=\s*\{)', re.M)


class Wrong(Exception):
    """Something in a file of mutants."""


def plain(text):
    """Words of comments: without stars, and with one blank between words."""
    bare = re.sub(r'^\s*(/\*|\*/|\*|//)', ' ', text, flags=re.M).replace('*/', ' ')
    return ' '.join(bare.split())


def read(path):
    """The algorithm, its sources, and a list of mutants."""
    name, sources, mutants = None, [], []
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        word, _, rest = line.partition(' ')
        if word == 'algorithm':
            name, *sources = rest.split()
        elif word == 'rule':
            mutants.append({'rule': rest, 'hunks': [], 'line': number})
        elif word == '-':
            if not mutants[-1]['hunks'] or mutants[-1]['hunks'][-1]['new']:
                mutants[-1]['hunks'].append({'old': [], 'new': []})
            mutants[-1]['hunks'][-1]['old'].append(rest)
        elif word == '+':
            mutants[-1]['hunks'][-1]['new'].append(rest)
        elif word == 'breaks':
            promise, profile, seed, *settings = rest.split()
            mutants[-1].update(promise=promise, profile=profile, seed=int(seed), settings=settings)
        elif word == 'unnoticed' and rest:
            mutants[-1].update(promise='', profile='usual', seed=1, settings=[])
        elif line and not line.startswith('#'):
            raise Wrong(f'{path.name}:{number}: {line}')
    for mutant in mutants:
        hunks = mutant['hunks']
        if 'promise' not in mutant or not hunks or not all(hunk['new'] for hunk in hunks):
            raise Wrong(f"{path.name}:{mutant['line']}: not a whole mutant")
    return name, sources, mutants


def pattern(lines):
    """What the old text looks like in a source: blanks and ends of lines do not matter."""
    return re.compile(r'\s+'.join(re.escape(word) for word in ' '.join(lines).split()))


def place(texts, hunk, where):
    """Which source has the old text, and where."""
    found = [(source, match.span()) for source, text in texts.items()
             for match in pattern(hunk['old']).finditer(text)]
    if len(found) != 1:
        raise Wrong(f"{where}: stands there {len(found)} times: {hunk['old'][0]}")
    return found[0]


def choose(old, hunks):
    """The text with its replacements, of which the number of the mutant chooses one."""
    is_statement = old.rstrip()[-1] in ';}'
    for hunk in hunks:
        new, test = ' '.join(hunk['new']), f"mare_mutant == {hunk['number']}"
        old = (f'{{ if ({test}) {{ {new} }} else {{ {old} }} }}' if is_statement
               else f'({test} ? ({new}) : ({old}))')
    return old


def weave(text, spans):
    """Replaces all; one place may lie inside another, or be the same."""
    def render(start, end, inside):
        out = ''
        while inside:
            (first, last), rest = inside[0], inside[1:]
            nested = [span for span in rest if span[0] < last]
            if any(span[1] > last for span in nested):
                raise Wrong(f'two mutants cross: {text[first:last]}')
            out += text[start:first]
            out += choose(render(first, last, nested), spans[first, last])
            start, inside = last, rest[len(nested):]
        return out + text[start:end]
    return render(0, len(text), sorted(spans, key=lambda span: (span[0], -span[1])))


def header_functions(text):
    """Inline functions of a header: name to source."""
    found = {}
    inline = r'^static inline [^;{]*?\b(mare__\w+)\([^)]*\)\n\{.*?^\}\n'
    for match in re.finditer(inline, text, re.M | re.S):
        found[match[1]] = match[0]
    return found


def generate(path):
    name, sources, mutants = read(path)
    texts = {source: (ROOT / 'src' / source).read_text(encoding='utf-8') for source in sources}
    words = plain('\n'.join(texts.values()))
    texts = {source: re.sub(r'(?s)/\*.*?\*/|//[^\n]*', '', text) for source, text in texts.items()}
    spans = {source: {} for source in sources}
    for number, mutant in enumerate(mutants, 1):
        mutant['number'] = number
        if plain(mutant['rule']) not in words:
            raise Wrong(f"{path.name}:{mutant['line']}: no comment says: {mutant['rule']}")
        for hunk in mutant['hunks']:
            source, span = place(texts, hunk, f"{path.name}:{mutant['line']}")
            spans[source].setdefault(span, []).append(hunk | {'number': number})
    return write(name, texts, spans, mutants)


def write(name, texts, spans, mutants):
    ending = 'mutant_' + re.sub(r'\W', '_', pathlib.Path(sys.argv[1]).stem)
    out = ['/* Made by tests/sim/mutate.py. */', '#include "tests/sim/mutants.h"', '']
    units = [source for source in texts if source.endswith('.c')]
    external = {word for source in units for word in DEFINITION.findall(texts[source])}
    out += [f'#define {word} {word}_{ending}' for word in sorted(external)]
    for source in texts:
        if source.endswith('.h') and spans[source]:
            out.append(f'#include "{source}"')
            before, after = header_functions(texts[source]), weave(texts[source], spans[source])
            for word, text in header_functions(after).items():
                if text != before[word]:
                    out += [re.sub(rf'\b{word}\b', f'{word}_{ending}', text),
                            f'#define {word} {word}_{ending}']
    out += [weave(texts[source], spans[source]) for source in units]
    own = 'mare_coord_' + re.sub(r'\W', '_', name)
    algorithm = own if own in external else next(word for word in external
                                                 if word.startswith('mare_coord_'))
    out += [f'#undef {word}' for word in sorted(external)]
    out.append(f'const mare_mutant_row mare_mutants_{ending[7:]}[] = {{')
    for mutant in mutants:
        rule = mutant['rule'].replace('\\', '\\\\').replace('"', '\\"')
        out.append(f'    {{(const mare_coord_algorithm *)&{algorithm}_{ending}, '
                   f'{mutant["number"]}, "{rule}", '
                   f'"{mutant["promise"]}", "{mutant["profile"]}", {mutant["seed"]}, '
                   f'"{" ".join(mutant["settings"])}"}},')
    out.append('    {0},\n};')
    return '\n'.join(out) + '\n'


def main(path, out, depends):
    path = pathlib.Path(path)
    try:
        text = generate(path)
    except Wrong as wrong:
        sys.exit(f'mutate.py: {wrong}')
    pathlib.Path(out).write_text(text, encoding='utf-8')
    sources = ' '.join(str(ROOT / 'src' / source) for source in read(path)[1])
    pathlib.Path(depends).write_text(f'{out}: {path} {sources}\n', encoding='utf-8')


if __name__ == '__main__':
    main(*sys.argv[1:])
