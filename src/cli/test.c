// SPDX-License-Identifier: MIT
// `mare test`: its help. What it does is in lua/mare/_test.lua.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

// Added to the exit code by the runner, so that it is told from that of a case which ends the
// program.
enum { OURS = 240 };

const char mare__cli_test_help[] =
    "mare test [FILE.lua | FOLDER ...] [PATTERN]\n"
    "\n"
    "Runs tests, each case in a process of its own with a timeout, and reports in TAP. A test\n"
    "file is called test_NAME.lua or NAME_test.lua and returns a table of cases:\n"
    "\n"
    "    local t = require \"mare.test\"\n"
    "    return {\n"
    "        adds = function() t.eq(1 + 1, 2) end,\n"
    "        waits = {function() t.ok(work(10)) end, timeout = 30},\n"
    "    }\n"
    "\n"
    "Without files and folders it looks in `tests`, `test`, or here. With a Lua pattern it runs\n"
    "only the cases whose names match.\n"
    "\n"
    "  --timeout S      seconds that a case may take (60); MARE_TEST_SLOW=2 doubles all of them\n"
    "\n"
    "Exit codes: 0 all passed; 1 some failed, or there was none; 2 wrong usage.\n";

int mare__cli_test(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(mare__cli_test_help, stdout);
            return 0;
        }
    }
    static char runner[] = "require 'mare._test'(true, ...)";
    argv[0] = runner;
    int code = mare__cli_run(SOURCE_CODE, argc, argv);
    if (code >= OURS && code <= OURS + EXIT_USAGE)
        return code - OURS;
    if (code > EXIT_SIGNAL)
        return code;
    printf("Bail out! The tests ended early, with exit code %d: did a case call os.exit?\n", code);
    return EXIT_DIED;
}
