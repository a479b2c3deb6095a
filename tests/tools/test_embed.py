# SPDX-License-Identifier: MIT
"""What embed.py writes compiles, and holds exactly the bytes of the files."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tap
import embed

DUMP = '''
#include <stdio.h>
#include "lua/embedded.h"
int main(void)
{
    for (size_t i = 0; i < mare__embedded_count; i++) {
        printf("%s %zu\\n", mare__embedded[i].name, mare__embedded[i].length);
        fwrite(mare__embedded[i].source, 1, mare__embedded[i].length, stdout);
    }
    return 0;
}
'''


class Embed(unittest.TestCase):
    def dump(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, data in files.items():
                (root / 'lua' / name).parent.mkdir(parents=True, exist_ok=True)
                (root / 'lua' / name).write_bytes(data)
            embed.main(root / 'embedded.c', root / 'lua', *[root / 'lua' / name for name in files])
            (root / 'dump.c').write_text(DUMP, encoding='ascii')
            subprocess.run([shutil.which('gcc') or 'cc', '-Wall', '-Wextra', '-Wpedantic',
                            '-Werror', '-I', tap.ROOT / 'src', '-o', root / 'dump',
                            root / 'dump.c', root / 'embedded.c'], check=True)
            return subprocess.run([root / 'dump'], capture_output=True, check=True).stdout

    def test_no_files(self):
        self.assertEqual(self.dump({}), b'')

    def test_names_are_modules_in_order(self):
        found = self.dump({'b.lua': b'', 'mare/rpc.lua': b'', 'mare/init.lua': b'', 'a.lua': b''})
        self.assertEqual(found, b'a 0\nb 0\nmare 0\nmare.rpc 0\n')

    def test_every_byte_survives(self):
        data = bytes(range(256)) * 40 + b'??=\r\n"\\\n0' + bytes([1]) + b'7'
        self.assertEqual(self.dump({'x.lua': data}), b'x %d\n' % len(data) + data)

    def test_two_files_for_one_module(self):
        with self.assertRaises(SystemExit):
            self.dump({'mare.lua': b'', 'mare/init.lua': b''})


tap.main(__name__)
