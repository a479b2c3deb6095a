// SPDX-License-Identifier: MIT
// Golden scripts of the link: what two or three nodes say to each other and tell their hosts,
// written down so that a student can read the protocol by its examples.
//
//     # words after a hash are for the reader
//     node a frame=256 silence=3s      a node with settings
//     dial a b                         connection 1: its ends are a1 and b1
//     deliver
//     ----
//     a1 > HELLO 'mare' 1 1 …          a frame on its way
//     b1: hello a, version 1           what the host of b is told
//
// A block is commands, a line of dashes, the expected output, an empty line. Commands:
//
//     node NAME [frame=N] [flows=N] [send=N] [receive=N] [control=N] [silence=T] [versions=A-B]
//          [features=N] [group=TEXT] [incarnation=N] [beat=TEXT]
//     dial A B                        a connects to b, with a new connection
//     link A B                        … and the handshake is done, without a word about it
//     accept E      refuse E CODE [TEXT]      judge E E     what mare__link_judge says of a HELLO
//     deliver       everything under way arrives, until nothing is
//     deliver E [N] the next frames that E has sent arrive
//     open E FLOW MESSAGES BYTES [once]       close E FLOW      consume E FLOW MESSAGES BYTES
//     send E FLOW TEXT or LETTER*COUNT        end E FLOW
//     bye E         quit E CODE [TEXT]
//     lose E        what E sends from now on does not arrive;  heal E   it does again
//     narrow E N    so many bytes of E are under way at once, and no more
//     cut E         the transport of E breaks, and E notices;  both ends: cut E E
//     redial E      … over a new connection;  resume E FRESH   the other end goes on over it
//     wait T        time passes, and what is under way arrives;  3s, 750ms
//     sleep T       time passes, and nobody is there to notice what happens meanwhile
//     raw E HEX…    bytes from nowhere
//     look E        what can be seen of it
//     bytes         from now on frames are shown byte by byte too, the first 64 of each
//
// With MARE_GOLDEN=write in the environment the expected parts are written anew.
#pragma once

#include <stdbool.h>

#include "tests/link/machine.h"

// Runs a script with a machine. Returns 0 when the output is as expected; otherwise prints the
// difference, unless it is to be quiet.
int link_script_run(const char *path, const struct link_machine *machine, bool quiet);
