// SPDX-License-Identifier: MIT
// `mare keys`: its help. What it does is in lua/mare/_keys.lua, on the module mare.keys.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_keys_help[] =
    "mare keys authority GROUP        makes an authority for a group of nodes\n"
    "mare keys issue NAME [HOST ...]  makes a key and a certificate for a node, and its hosts\n"
    "mare keys issue NAME --code      the same for somebody who signs code\n"
    "mare keys rotate NAME ...        makes new keys and certificates for existing names\n"
    "mare keys rotate authority       makes a new authority; the old one is trusted until retired\n"
    "mare keys retire                 stops trusting the previous authority\n"
    "mare keys revoke NAME ...        revokes all certificates of these names\n"
    "mare keys secret NAME            makes a secret that two sides share (a pre-shared key)\n"
    "mare keys show [FILE ...]        lists all, with fingerprints, and whether it is valid\n"
    "mare keys sign NAME FILE ...     signs files with code: FILE.sig\n"
    "mare keys check FILE ...         shows who signed a file, and whether that is valid\n"
    "\n"
    "All of it is in one folder. Its files *.key and *.psk are secret. A node needs its own\n"
    "NAME.pem and NAME.key, and trusted.pem; after rotate authority, retire and revoke, the new\n"
    "trusted.pem. authority.key should never leave the machine on which it was made.\n"
    "\n"
    "Options\n"
    "  --folder FOLDER  where the keys are (keys)\n"
    "  --days N         authority, issue, rotate: how long it is valid (3650 an authority, others\n"
    "                   365), but never longer than the authority\n"
    "  --code           issue: to sign code, not to open links\n"
    "  --replace        secret, sign: overwrite an existing file\n"
    "  --within N       show: also report what expires within so many days\n"
    "  --json           one JSON object a line\n"
    "\n"
    "Try\n"
    "  mare keys authority tides\n"
    "  mare keys issue ebb 127.0.0.1\n"
    "  mare keys show\n"
    "\n"
    "Exit codes: 0 done, and for show and check: all is well; 1 it failed, or something is not\n"
    "valid; 2 wrong usage.\n";

int mare__cli_keys(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(mare__cli_keys_help, stdout);
            return 0;
        }
    }
    if (argc < 2) {
        fputs(mare__cli_keys_help, stderr);
        return EXIT_USAGE;
    }
    return mare__cli_run_module("mare._keys", argc, argv);
}
