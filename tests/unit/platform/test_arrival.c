// SPDX-License-Identifier: MIT
// When a datagram came: by the kernel's stamp, with a system's clock that may be set in between.
#include <errno.h>

#include "platform/datagram.h"
#include "platform/option.h"
#include "platform/wall.h"
#include "unit.h"

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define UTC (INT64_C(1800000000) * SECOND)

enum { WIDTH = 100, UNSURE = 2 * WIDTH };

// Clocks that were read `local_ns` after the oscillator began; the system's was set by so much.
static struct mare__wall look(int64_t local_ns, int64_t set_ns)
{
    return (struct mare__wall){.local_ns = local_ns,
                               .utc_ns = UTC + local_ns + set_ns,
                               .ahead_ns = UTC + set_ns,
                               .width_ns = WIDTH};
}

static struct mare__arrivals begun(void)
{
    return (struct mare__arrivals){.seen = look(0, 0), .trusted_ns = INT64_MIN};
}

// Less what the looks were unsure by: never more than it was.
static void a_stamp_tells_how_long_ago(void **state)
{
    (void)state;
    struct mare__arrivals arrivals = begun();
    struct mare__wall now = look(5 * SECOND, 0);
    assert_int_equal(mare__wall_age_ns(&arrivals, &now, UTC + 4 * SECOND), SECOND - UNSURE);
    assert_int_equal(mare__wall_age_ns(&arrivals, &now, now.utc_ns - UNSURE - 9), 9);
    assert_int_equal(mare__wall_age_ns(&arrivals, &now, now.utc_ns - UNSURE), 0);
}

// The system's clock runs a tenth faster than the oscillator, as fast as the kernel lets it, and
// the monotonic one with it. What seems to be 110 ms old is 100 ms old. After a look that is closer
// the slewing since then is all that can be wrong.
static void a_clock_that_is_slewed_makes_nothing_older(void **state)
{
    (void)state;
    struct mare__arrivals arrivals = begun();
    for (int64_t local = SECOND; local <= 5 * SECOND; local += SECOND) {
        struct mare__wall now = look(local, local / 10);
        now.ahead_ns = UTC;
        int64_t age = mare__wall_age_ns(&arrivals, &now, now.utc_ns - 110 * MS);
        assert_true(age > 98 * MS && age <= 100 * MS);
    }
    struct mare__wall now = look(5 * SECOND + 200 * MS, SECOND / 2 + MS);
    now.ahead_ns = UTC;
    int64_t age = mare__wall_age_ns(&arrivals, &now, now.utc_ns - 100 * MS);
    assert_int_equal(age, 99 * MS - UNSURE);
}

static void no_stamp_or_nonsense_is_now(void **state)
{
    (void)state;
    struct mare__arrivals arrivals = begun();
    struct mare__wall now = look(60 * SECOND, 0);
    const int64_t stamps[] = {
        0, 1, -1, UTC + 60 * SECOND, UTC + 61 * SECOND, UTC + 49 * SECOND, INT64_MAX};
    for (size_t i = 0; i < sizeof stamps / sizeof *stamps; i++)
        assert_int_equal(mare__wall_age_ns(&arrivals, &now, stamps[i]), 0);
}

// Set forward by half a second after the datagram came: its stamp would be older than it is. Set
// back, or suspended, likewise; and those that still wait are not believed either.
static void a_clock_that_is_set_spoils_the_stamps_before(void **state)
{
    (void)state;
    const int64_t set[] = {SECOND / 2, -SECOND / 2, SECOND, -MS, MS, 30 * SECOND};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        struct mare__arrivals arrivals = begun();
        struct mare__wall now = look(SECOND, set[i]);
        assert_int_equal(mare__wall_age_ns(&arrivals, &now, UTC + SECOND - MS), 0);
        now = look(2 * SECOND, set[i]);
        assert_int_equal(mare__wall_age_ns(&arrivals, &now, UTC + SECOND - MS), 0);
        now = look(12 * SECOND, set[i]); // and believed again
        assert_true(mare__wall_age_ns(&arrivals, &now, now.utc_ns - MS) > MS / 2);
    }
}

// What is less than the looks can show is less than what is taken off.
static void a_small_change_is_taken_off(void **state)
{
    (void)state;
    for (int64_t set = -UNSURE; set <= UNSURE; set += WIDTH / 2) {
        struct mare__arrivals arrivals = begun();
        struct mare__wall now = look(SECOND, set);
        assert_true(mare__wall_age_ns(&arrivals, &now, UTC + SECOND - MS) <= MS);
    }
}

// The real clocks: what is taken for steady is.
static void the_clocks_of_this_machine_are_steady(void **state)
{
    (void)state;
    struct mare__arrivals arrivals;
    struct mare__wall now;
    mare__arrivals_init(&arrivals);
    for (int i = 0; i < 10000; i++) {
        mare__wall_read(&now);
        mare__wall_age_ns(&arrivals, &now, 0);
        assert_true(arrivals.trusted_ns == INT64_MIN);
    }
}

// ---- Sockets -----------------------------------------------------------------------------------

// A socket on the loopback interface, and where it is.
static int open_here(struct mare__address *here, bool stamps)
{
    assert_true(mare__address_numeric(here, "127.0.0.1", 0));
    int fd = mare__socket_open(here->storage.ss_family, SOCK_DGRAM);
    assert_true(fd >= 0);
    assert_int_equal(mare__socket_bind(fd, here), 0);
    if (stamps)
        assert_int_equal(mare__option_turn_on(fd, "stamps"), 0);
    assert_int_equal(mare__socket_address(fd, false, here), 0);
    return fd;
}

static void the_kernel_stamps_what_arrives(void **state)
{
    (void)state;
    struct mare__address here, there, from;
    uint8_t data[4], packed[2][MARE__ADDRESS_PACKED];
    struct mare__wall before, after;
    int64_t stamp;
    int fd = open_here(&here, true), sender = open_here(&there, false);
    assert_int_equal(mare__datagram_receive(fd, &from, data, sizeof data, &stamp), -EAGAIN);
    mare__wall_read(&before);
    assert_int_equal(mare__datagram_send(sender, &here, "longer", 6), 6);
    assert_int_equal(mare__datagram_send(fd, &here, "self", 4), 4);
    assert_int_equal(mare__datagram_receive(fd, &from, data, sizeof data, &stamp), 6); // cut off
    mare__wall_read(&after);
    assert_true(before.utc_ns <= stamp && stamp <= after.utc_ns);
    assert_int_equal(mare__datagram_receive(fd, &from, data, sizeof data, &stamp), 4);
    mare__address_pack(&from, packed[0]);
    mare__address_pack(&here, packed[1]);
    assert_memory_equal(packed[0], packed[1], sizeof packed[0]);
    assert_memory_equal(data, "self", 4);
    mare__socket_close(sender);
    mare__socket_close(fd);
}

// A socket that has no stamps: a kernel that cannot note them.
static void without_stamps_datagrams_come_all_the_same(void **state)
{
    (void)state;
    struct mare__address here, from;
    uint8_t data[8];
    int64_t stamp = 1;
    int fd = open_here(&here, false);
    assert_int_equal(mare__datagram_send(fd, &here, "word", 4), 4);
    assert_int_equal(mare__datagram_receive(fd, &from, data, sizeof data, &stamp), 4);
    assert_int_equal(stamp, 0);
    mare__socket_close(fd);
}

// What travels in 18 bytes is the same address afterwards, and of the same family.
static void addresses_are_packed_and_unpacked(void **state)
{
    (void)state;
    const char *hosts[] = {"127.0.0.1", "192.0.2.7", "::1", "2001:db8::5"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct mare__address address, again;
        uint8_t packed[MARE__ADDRESS_PACKED];
        char host[MARE__HOST_MAX];
        assert_true(mare__address_numeric(&address, hosts[i], 7001));
        mare__address_pack(&address, packed);
        mare__address_unpack(packed, &again);
        assert_int_equal(mare__address_text(&again, host), 7001);
        assert_string_equal(host, hosts[i]);
        assert_int_equal(again.length, address.length);
    }
}

UNIT_TESTS(cmocka_unit_test(a_stamp_tells_how_long_ago),
           cmocka_unit_test(a_clock_that_is_slewed_makes_nothing_older),
           cmocka_unit_test(no_stamp_or_nonsense_is_now),
           cmocka_unit_test(a_clock_that_is_set_spoils_the_stamps_before),
           cmocka_unit_test(a_small_change_is_taken_off),
           cmocka_unit_test(the_clocks_of_this_machine_are_steady),
           cmocka_unit_test(the_kernel_stamps_what_arrives),
           cmocka_unit_test(without_stamps_datagrams_come_all_the_same),
           cmocka_unit_test(addresses_are_packed_and_unpacked))
