/* SPDX-License-Identifier: MIT */
#pragma once

/* Golden scripts: a small language in which the interaction of a few machines is written down, with
 * the effects that are expected, so that a student can read a protocol by its examples.
 *
 *     # words after a hash are for the reader
 *     group ricart 3 repair=0          a group of three, parameters for all; machines start
 *     group ricart 3 repair=0 clock=7,0,11     … or for each
 *     enter 0
 *     ----
 *     p0 broadcast REQUEST clock=8 ticket=1 stamp=8
 *
 * A block is commands, a line of dashes, the expected output, an empty line. Commands:
 *
 *     enter I   exit I   abandon I   elect I   multicast I TEXT
 *     deliver I J     the oldest message under way from I to J arrives
 *     deliver         everything arrives, oldest first, until nothing is under way
 *     drop I J        … is lost instead        repeat I J   … arrives and stays under way
 *     timer I T       timer T of I runs out
 *     down I J   up I J     I is told that J is down, or up
 *     crash I         what reaches I is lost, until      restart I   START again, with memory
 *     look I          prints phase and clock
 *     links I-J …     only these pairs are neighbours
 *
 * With MARE_GOLDEN=write in the environment the expected parts are written anew. */

/* Runs a script. Returns 0 when the output is as expected; otherwise prints the difference. */
int mare_script_run(const char *path);
