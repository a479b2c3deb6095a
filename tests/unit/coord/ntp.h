/* SPDX-License-Identifier: MIT */
#pragma once

/* What the tests of NTP share: spans, a key, and a packet written out by hand. */

#include <mare/coord_ntp.h>

#define S MARE_TIME_SECOND
#define MS (S / 1000)
#define NOW (INT64_C(1800000000) * S) /* in 2027 */

static const mare_ntp_key friendly = {.id = 7, .secret = "0123456789abcde"};

/* Written out by hand from the figure of RFC 5905, section 7.3. */
static const uint8_t by_hand[48] = {
    0x24,                                           /* no leap, version 4, mode 4 */
    0x02, 0x06, 0xe9,                               /* stratum 2, poll 6, precision −23 */
    0x00, 0x00, 0x80, 0x00,                         /* root delay 0.5 s */
    0x00, 0x01, 0x40, 0x00,                         /* root dispersion 1.25 s */
    0xc0, 0x00, 0x02, 0x01,                         /* 192.0.2.1 */
    0x83, 0xaa, 0x7e, 0x80, 0x40, 0x00, 0x00, 0x00, /* 1970 and a quarter of a second */
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* origin */
    0x83, 0xaa, 0x7e, 0x81, 0x00, 0x00, 0x00, 0x00, /* received a second after 1970 */
    0x83, 0xaa, 0x7e, 0x81, 0x80, 0x00, 0x00, 0x00, /* sent half a second later */
};
