# SPDX-License-Identifier: MIT
"""The tree obeys the layout rules; and a tree that breaks one is caught, rule by rule."""
import pathlib
import tempfile
import unittest

import tap
import check_layout

SPDX = '// SPDX-License-Identifier: MIT\n'
TABLE = '''
| folder | may include |
|---|---|
| base | |
| platform | base |
| coord | base |
| sched | platform base |
'''


class Layout(unittest.TestCase):
    def breaches(self, files):
        """What the checker says about a tree of these files (and a table of layers)."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {'docs/architecture.md': TABLE, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding='utf-8')
            checker = check_layout.Checker(root)
            checker.run()
            return checker.breaches

    def caught(self, files, start, word):
        found = self.breaches(files)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(start), found[0])
        self.assertIn(word, found[0])

    def test_this_tree(self):
        checker = check_layout.Checker(tap.ROOT)
        checker.run()
        if checker.breaches:
            self.fail('\n'.join(checker.breaches))

    def test_good_tree(self):
        self.assertEqual(self.breaches({
            'src/base/list.h': SPDX + '#pragma once\n#include <stddef.h>\n',
            'src/sched/run.c': SPDX + '#include "base/list.h"\n#include "sched/run.h"\n',
            'src/sched/run.h': SPDX + '#ifndef RUN_H\n#define RUN_H\n#endif\n',
            'src/platform/os.c': SPDX + '#include <pthread.h>\n#ifdef __linux__\n#endif\n',
            'include/mare.h': SPDX + '#pragma once\n#ifdef __cplusplus\nextern "C" {\n#endif\n',
            'include/meson.build': "# SPDX-License-Identifier: MIT\npublic_headers = ['mare.h']\n",
        }), [])

    def test_include_upwards(self):
        self.caught({'src/sched/run.h': SPDX,
                     'src/base/list.c': SPDX + '#include "sched/run.h"\n'},
                    'src/base/list.c:2:', 'base may not include sched')

    def test_include_upwards_by_a_relative_path(self):
        self.caught({'src/sched/run.h': SPDX,
                     'src/base/list.c': SPDX + '#include "../sched/run.h"\n'},
                    'src/base/list.c:2:', 'base may not include sched')

    def test_time_in_coord(self):
        self.caught({'src/coord/vote.c': SPDX + '#include <time.h>\n'}, 'src/coord/vote.c:2:',
                    'pure')

    def test_lua_in_coord(self):
        self.caught({'src/coord/vote.c': SPDX + '#include <lua.h>\n'}, 'src/coord/vote.c:2:',
                    'pure')

    def test_threads_that_reach_coord_through_base(self):
        found = self.breaches({'src/base/list.h': SPDX + '#include <pthread.h>\n',
                               'src/coord/vote.c': SPDX + '#include "base/list.h"\n'})
        self.assertEqual(len(found), 2, found)
        self.assertIn('<pthread.h>', found[1])

    def test_rand_in_coord(self):
        code = '// rand() is out\nint x(void) { return rand(); }\n'
        self.caught({'src/coord/vote.c': SPDX + code},
                    'src/coord/vote.c:3:', 'rand()')

    def test_threads_outside_platform(self):
        self.caught({'src/sched/run.c': SPDX + '#include <pthread.h>\n'}, 'src/sched/run.c:2:',
                    'only src/platform')

    def test_ifdef_outside_platform(self):
        self.caught({'src/sched/run.c': SPDX + '#ifdef __linux__\n#endif\n'},
                    'src/sched/run.c:2:', '#ifdef')

    def test_no_licence(self):
        self.caught({'src/base/list.c': 'int x;\n'}, 'src/base/list.c:1:', 'SPDX')

    def test_long_line(self):
        self.caught({'src/base/list.c': SPDX + '//' + 'x' * 99 + '\n'}, 'src/base/list.c:2:', '101')

    def test_unknown_folder(self):
        self.caught({'src/misc/x.c': SPDX}, 'src/misc/x.c:1:', 'not in the table')

    def test_test_that_never_runs(self):
        self.caught({'tests/lua/test_x.lua': '-- SPDX-License-Identifier: MIT\n'},
                    'tests/lua/test_x.lua:1:', "add 'x' to lua_tests")
        self.caught({'tests/unit/base/test_list.c': SPDX}, 'tests/unit/base/test_list.c:1:',
                    "add 'base/list' to unit_tests")

    def test_case_that_is_made_and_never_called(self):
        text = '-- SPDX-License-Identifier: MIT\nlocal function f()\n    t.in_folder(function()\n'
        self.caught({'tests/lua/shared.lua': text + '        g()\n    end)\nend\n'},
                    'tests/lua/shared.lua:3:', 'nobody calls')
        self.assertEqual(self.breaches({'tests/lua/shared.lua': text + '    end)()\nend\n'}), [])

    def test_no_table(self):
        self.caught({'docs/architecture.md': 'Nothing.\n'}, 'docs/architecture.md:1:', 'table')


tap.main(__name__)
