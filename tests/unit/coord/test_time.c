/* SPDX-License-Identifier: MIT */

/* The model of a clock, the disciplined clock and leap seconds: the numbers of the sources, and
 * what must hold of every reading. */

#include "support/unit.h"

#include <mare/coord_time.h>

#include <time.h>

#define S MARE_TIME_SECOND
#define MS (S / 1000)
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)

/* The model ----------------------------------------------------------------------------------- */

/* Problem 2 of chapter 6: one clock ticks 1,000 times in a millisecond, the other 990 times, and
 * both are put right once a minute. */
static void the_exercise_gives_600_ms(void **state)
{
    (void)state;
    mare_time_model good = {.skew_ppb = mare_time_skew_ppb(1000, 1000)};
    mare_time_model slow = {.skew_ppb = mare_time_skew_ppb(1000, 990), .drift_ppb = 10000000};
    assert_int_equal(slow.skew_ppb, -10000000);
    assert_int_equal(mare_time_model_read(&good, MINUTE) - mare_time_model_read(&slow, MINUTE),
                     600 * MS);
    assert_true(mare_time_model_in_spec(&slow));
    slow.drift_ppb--;
    assert_false(mare_time_model_in_spec(&slow));
}

/* Figure 6.1: the object file is from 2144; its source is changed after that, on a machine whose
 * clock is behind, and seems to be from 2143. With the bounds nobody is fooled: either may be the
 * newer one. Once the slow clock follows the other the order is right. */
static void make_is_not_fooled(void **state)
{
    (void)state;
    mare_time_model behind = {.offset_ns = -2 * S};
    mare_time_clock right, wrong;
    mare_time_clock_init(&right, 0, 500000);
    mare_time_clock_init(&wrong, 0, 500000);
    mare_time_clock_set(&right, 0, 0, S / 2);
    mare_time_clock_set(&wrong, 0, mare_time_model_read(&behind, 0), 5 * S / 2);
    mare_time_reading object = mare_time_clock_read(&right, 2144 * S);
    mare_time_reading source = mare_time_clock_read(&wrong, 2145 * S);
    assert_int_equal(object.time_ns, 2144 * S);
    assert_int_equal(source.time_ns, 2143 * S);
    assert_true(source.time_ns + (int64_t)source.error_ns >
                object.time_ns - (int64_t)object.error_ns);
    mare_time_clock_set(&wrong, 2145 * S, 2145 * S, 0);
    int64_t done = 2145 * S + 2 * S / 500000 * MARE_TIME_SECOND; /* 2 s at 500 ppm */
    object = mare_time_clock_read(&right, done);
    source = mare_time_clock_read(&wrong, done + S);
    assert_true(source.time_ns > object.time_ns);
}

/* For a leap second power companies run at 61 Hz for 60 s, or at 51 Hz for 50 s: the clocks on the
 * line gain a second. */
static void clocks_on_the_power_line(void **state)
{
    (void)state;
    static const int64_t hz[] = {60, 50};
    for (int i = 0; i < 2; i++) {
        mare_time_model line = {.skew_ppb =
                                    mare_time_skew_ppb((uint64_t)hz[i], (uint64_t)hz[i] + 1)};
        int64_t gained = mare_time_model_read(&line, hz[i] * S) - hz[i] * S;
        assert_in_range(gained, S - 60, S + 60); /* a rate is given in parts in 10^9 */
    }
}

/* A timer of 60 Hz with a relative error of 10⁻⁵ ticks between 215,998 and 216,002 times an hour.
 */
static void the_timer_of_60_hz(void **state)
{
    (void)state;
    mare_time_model fast = {.skew_ppb = 10000}, slow = {.skew_ppb = -10000};
    assert_int_equal(mare_time_model_read(&fast, HOUR) * 60 / S, 216002);
    assert_int_equal((mare_time_model_read(&slow, HOUR) * 60 + S - 1) / S, 215998);
}

/* Three hours of nanoseconds, a thousandth too many; and numbers at the end of the range. */
static void a_skew_of_large_numbers(void **state)
{
    (void)state;
    assert_int_equal(mare_time_skew_ppb(10800 * S, 10800 * S + 10800 * MS), 1000000);
    assert_int_equal(mare_time_skew_ppb(10800 * S, 10800 * S - 10800 * MS), -1000000);
    assert_int_equal(mare_time_skew_ppb(UINT64_MAX, 0), -S); /* it stands still */
    assert_true(mare_time_skew_ppb(1, UINT64_MAX) == INT64_MAX);
    assert_int_equal(mare_time_skew_ppb(0, 5), 0);
}

static void two_clocks_part_by_two_rho(void **state)
{
    (void)state;
    assert_int_equal(mare_time_apart_ns(10000, HOUR), 72 * MS); /* 2 × 10⁻⁵ × 3,600 s */
    assert_int_equal(mare_time_resync_ns(10000, 72 * MS), HOUR);
    assert_int_equal(mare_time_apart_ns(1, 1), 1); /* upwards */
    assert_true(mare_time_resync_ns(0, 1) == UINT64_MAX);
    /* 290 years do not overflow. */
    assert_int_equal(mare_time_apart_ns(500000000, UINT64_C(9000000000) * S),
                     UINT64_C(9000000000) * S);
}

/* The disciplined clock ------------------------------------------------------------------------ */

static void nobody_has_set_it(void **state)
{
    (void)state;
    mare_time_clock clock;
    mare_time_clock_init(&clock, 0, 500000);
    assert_true(mare_time_clock_read(&clock, 5).error_ns == MARE_TIME_UNKNOWN);
}

static void the_first_setting_is_a_jump(void **state)
{
    (void)state;
    mare_time_clock clock;
    mare_time_clock_init(&clock, 15000, 500000);
    mare_time_clock_set(&clock, 1000, 1700 * S, 3 * MS);
    mare_time_reading reading = mare_time_clock_read(&clock, 1000);
    assert_int_equal(reading.time_ns, 1700 * S);
    assert_in_range(reading.error_ns, 3 * MS, 3 * MS + 1);
    /* 15 ppm for 100 s are 1.5 ms; ρ² adds 45 ns. */
    reading = mare_time_clock_read(&clock, 1000 + 100 * S);
    assert_int_equal(reading.time_ns, 1800 * S);
    assert_in_range(reading.error_ns, 4500 * 1000 + 45, 4500 * 1000 + 47);
}

/* Ticks of 10 ms to which 9 or 11 are added: the book's way to put a clock right. 50 ms take 50
 * ticks. */
static void ticks_of_9_and_11(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        mare_time_clock clock;
        mare_time_clock_init(&clock, 0, 100000000);
        mare_time_clock_set(&clock, 0, 100 * S, 0);
        mare_time_clock_read(&clock, 0);
        mare_time_clock_set(&clock, 0, 100 * S + sign * 50 * MS, 0);
        for (int tick = 1; tick <= 60; tick++) {
            int64_t done = tick < 50 ? tick : 50;
            mare_time_reading reading = mare_time_clock_read(&clock, tick * 10 * MS);
            assert_int_equal(reading.time_ns, 100 * S + tick * 10 * MS + sign * done * MS);
            assert_in_range(reading.error_ns, (50 - done) * MS, (50 - done) * MS + 1);
        }
        assert_int_equal(mare_time_clock_gap(&clock, S), 0);
    }
}

/* A finding that is about an instant already passed by another correction. */
static void a_late_finding_is_carried_forward(void **state)
{
    (void)state;
    mare_time_clock clock;
    mare_time_clock_init(&clock, 10000, 100000000);
    mare_time_clock_set(&clock, 0, 0, 0);
    mare_time_clock_set(&clock, 10 * S, 10 * S, MS);
    mare_time_clock_set(&clock, 4 * S, 5 * S, MS); /* so it is 11 s now, and 6 s × 10 ppm unsure */
    mare_time_reading target = mare_time_clock_target(&clock, 10 * S);
    assert_int_equal(target.time_ns, 11 * S);
    assert_in_range(target.error_ns, MS + 60000, MS + 60003);
}

static void a_rate_is_taken_up(void **state)
{
    (void)state;
    mare_time_clock clock;
    mare_time_clock_init(&clock, 100000, 500000);
    mare_time_clock_set(&clock, 0, 0, 0);
    mare_time_clock_tune(&clock, 100 * S, 40000, 1000); /* 40 ppm slow, and then good to 1 ppm */
    mare_time_reading reading = mare_time_clock_read(&clock, 200 * S);
    assert_int_equal(reading.time_ns, 200 * S + 4 * MS);
    /* 100 ppm for 100 s and 1 ppm for 100 s, and the squares: 10 ms × 2 × 10⁻⁴ = 2 µs. */
    assert_in_range(reading.error_ns, 10100 * 1000, 10100 * 1000 + 2010);
}

/* Tuned to 10 % faster and good to 0.1 % of that: after a corrected span of 1,100,000 s the truth
 * is up to 1,100,000 / 0.999 s, that is 1,101.1 s away. */
static void a_bound_counts_the_corrected_time(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        mare_time_clock clock;
        mare_time_clock_init(&clock, 1000000, 500000);
        mare_time_clock_set(&clock, 0, 0, 0);
        assert_true(mare_time_clock_tune(&clock, 0, sign * 100000000, 1000000));
        mare_time_reading reading = mare_time_clock_read(&clock, 1000000 * S);
        int64_t passed_ns = (1000000 + sign * 100000) * S;
        assert_int_equal(reading.time_ns, passed_ns);
        uint64_t least = (uint64_t)passed_ns / 999; /* c / (1 - ρ) − c */
        assert_in_range(reading.error_ns, least, least + least / 500);
        /* A finding of before the last corner is carried forward by corrected time too. */
        mare_time_clock_set(&clock, 1000000 * S, passed_ns, 0);
        mare_time_clock_set(&clock, 0, 0, 0);
        assert_in_range(mare_time_clock_target(&clock, 1000000 * S).error_ns, least,
                        least + least / 500);
    }
}

static void a_rate_that_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    mare_time_clock clock;
    mare_time_clock_init(&clock, 1000, 500000);
    mare_time_clock_set(&clock, 0, 0, 0);
    assert_false(mare_time_clock_tune(&clock, 0, 400000001, 1000));
    assert_false(mare_time_clock_tune(&clock, 0, -400000001, 1000));
    assert_false(mare_time_clock_tune(&clock, 0, INT64_MIN, 1000));
    assert_false(mare_time_clock_tune(&clock, 0, 0, 500000001));
    assert_int_equal(mare_time_clock_read(&clock, 10 * S).time_ns, 10 * S);
    assert_true(mare_time_clock_tune(&clock, 10 * S, -400000000, 500000000));
    assert_int_equal(mare_time_clock_read(&clock, 20 * S).time_ns, 16 * S);
}

/* The newer finding counts, also when it is less sure. */
static void a_finding_replaces_the_one_before(void **state)
{
    (void)state;
    mare_time_clock clock;
    mare_time_clock_init(&clock, 0, 500000);
    mare_time_clock_set(&clock, 0, 0, 1000);
    mare_time_clock_set(&clock, 0, 10, 5000);
    mare_time_reading target = mare_time_clock_target(&clock, 0);
    assert_int_equal(target.time_ns, 10);
    assert_int_equal(target.error_ns, 5000);
}

/* Any sequence of corrections, tunings and readings: no reading is less than one before it, the gap
 * is counted, and time passes. */
static void it_never_goes_back(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    for (int run = 0; run < 2000; run++) {
        mare_time_clock clock;
        mare_time_clock_init(&clock, unit_random(&seed) % 1000000000,
                             unit_random(&seed) % 1000000000);
        int64_t local_ns = (int64_t)(unit_random(&seed) >> 2) - INT64_MAX / 4, last = INT64_MIN;
        for (int i = 0; i < 200; i++) {
            local_ns += (int64_t)(unit_random(&seed) % (unit_random(&seed) % 2 ? 100 : 10 * S));
            int64_t about_ns = local_ns - (int64_t)(unit_random(&seed) % (2 * S));
            int64_t shift = (int64_t)(unit_random(&seed) % (4 * S)) - 2 * S;
            switch (unit_random(&seed) % 6) {
            case 0:
                mare_time_clock_set(&clock, about_ns, about_ns + shift, 5);
                break;
            case 1:
                mare_time_clock_move(&clock, local_ns, shift, 5);
                break;
            case 2:
                mare_time_clock_tune(&clock, local_ns, shift, 5);
                break;
            default: {
                mare_time_reading target = mare_time_clock_target(&clock, local_ns);
                mare_time_reading reading = mare_time_clock_read(&clock, local_ns);
                int64_t gap = target.time_ns - reading.time_ns;
                assert_true(reading.time_ns >= last);
                assert_true(reading.error_ns == MARE_TIME_UNKNOWN ||
                            reading.error_ns - target.error_ns == (uint64_t)(gap < 0 ? -gap : gap));
                last = reading.time_ns;
            }
            }
        }
    }
}

/* An oscillator that goes back is answered with the last reading, and the bound says so. */
static void an_oscillator_that_goes_back(void **state)
{
    (void)state;
    mare_time_clock clock;
    mare_time_clock_init(&clock, 0, 500000);
    mare_time_clock_set(&clock, 0, 0, 0);
    assert_int_equal(mare_time_clock_read(&clock, 10 * S).time_ns, 10 * S);
    mare_time_reading reading = mare_time_clock_read(&clock, 4 * S);
    assert_int_equal(reading.time_ns, 10 * S);
    assert_in_range(reading.error_ns, 6 * S, 6 * S + 1);
}

/* Leap seconds --------------------------------------------------------------------------------- */

#define JAN_2006 INT64_C(1136073600)
#define JAN_2017 INT64_C(1483228800)

/* GPS time stands still against TAI, 19 seconds behind. The book: on 1 January 2006 it was 14
 * seconds ahead of UTC. */
static void gps_was_14_seconds_ahead(void **state)
{
    (void)state;
    const mare_time_leaps *known = mare_time_leaps_known();
    assert_int_equal(mare_time_tai_from_utc(known, JAN_2006 * S) - JAN_2006 * S, (14 + 19) * S);
    assert_int_equal(known->entry[0].utc_s, 63072000); /* 1972: 730 days */
    assert_int_equal(known->entry[0].tai_ahead_s, 10);
    for (uint32_t i = 1; i < known->count; i++) {
        assert_true(known->entry[i].utc_s > known->entry[i - 1].utc_s);
        assert_int_equal(known->entry[i].utc_s % 86400, 0);
        assert_int_equal(known->entry[i].tai_ahead_s, known->entry[i - 1].tai_ahead_s + 1);
    }
}

/* 28 June 2027 is 20,997 days after 1970: 57 years, 14 leap days, 178 days of the year. */
static void the_table_expires(void **state)
{
    (void)state;
    const mare_time_leaps *known = mare_time_leaps_known();
    const mare_time_leaps endless = {.entry = known->entry, .count = known->count};
    int64_t expires_ns = (57 * 365 + 14 + 178) * INT64_C(86400) * S;
    assert_false(mare_time_leaps_expired(known, expires_ns - 1));
    assert_true(mare_time_leaps_expired(known, expires_ns));
    assert_false(mare_time_leaps_expired(known, -1));
    assert_true(mare_time_leaps_expired(&endless, JAN_2017 * S)); /* nobody said how long */
}

/* The night to 2017: 23:59:59, 23:59:60, 00:00:00. */
static void the_last_night_of_2016(void **state)
{
    (void)state;
    const mare_time_leaps *known = mare_time_leaps_known();
    const struct {
        int64_t tai_s, utc_s;
        int leap;
    } night[] = {{JAN_2017 - 2 + 36, JAN_2017 - 2, 0},
                 {JAN_2017 - 1 + 36, JAN_2017 - 1, 0},
                 {JAN_2017 + 36, JAN_2017 - 1, 1},
                 {JAN_2017 + 37, JAN_2017, 0},
                 {JAN_2017 + 38, JAN_2017 + 1, 0}};
    for (size_t i = 0; i < sizeof night / sizeof *night; i++) {
        int leap = -1;
        for (int64_t part = 0; part < S; part += S / 2) {
            assert_int_equal(mare_time_utc_from_tai(known, night[i].tai_s * S + part, &leap),
                             night[i].utc_s * S + part);
            assert_int_equal(leap, night[i].leap);
            if (!leap)
                assert_int_equal(mare_time_tai_from_utc(known, night[i].utc_s * S + part),
                                 night[i].tai_s * S + part);
        }
    }
    assert_int_equal(mare_time_leap_today(known, (JAN_2017 - 1) * S), 1);
    assert_int_equal(mare_time_leap_today(known, (JAN_2017 - 86400) * S), 1);
    assert_int_equal(mare_time_leap_today(known, (JAN_2017 - 86401) * S), 0);
    assert_int_equal(mare_time_leap_today(known, JAN_2017 * S), 0);
    assert_true(mare_time_leap_near(known, JAN_2017 * S - S, S));
    assert_false(mare_time_leap_near(known, JAN_2017 * S - S - 1, S));
}

/* A second left out has never happened; the table could say so all the same. */
static void a_second_left_out(void **state)
{
    (void)state;
    const mare_time_leap entries[] = {{0, 10}, {1000, 9}};
    const mare_time_leaps leaps = {.entry = entries, .count = 2};
    int leap;
    assert_int_equal(mare_time_utc_from_tai(&leaps, 1008 * S, &leap), 998 * S);
    assert_int_equal(mare_time_utc_from_tai(&leaps, 1009 * S, &leap), 1000 * S); /* no 999 */
    assert_int_equal(leap, 0);
    assert_int_equal(mare_time_tai_from_utc(&leaps, 1000 * S), 1009 * S);
    assert_int_equal(mare_time_leap_today(&leaps, 0), -1);
}

/* The C library's calendar knows where months end. */
static int64_t month_of(int64_t utc_ns)
{
    struct tm date;
    time_t second = (time_t)(utc_ns / S - (utc_ns % S < 0));
    assert_non_null(gmtime_r(&second, &date));
    return date.tm_year * 12 + date.tm_mon;
}

static void leap_seconds_that_may_be(void **state)
{
    (void)state;
    const mare_time_leaps *known = mare_time_leaps_known();
    const mare_time_leaps none = {.expires_s = INT64_MIN};
    uint64_t seed = unit_seed();
    assert_int_equal(mare_time_leaps_possible(known, JAN_2017 * S - 1, JAN_2017 * S), 1);
    assert_int_equal(mare_time_leaps_possible(known, JAN_2017 * S, known->expires_s * S), 0);
    assert_int_equal(mare_time_leaps_possible(known, JAN_2017 * S - S, JAN_2017 * S - 1), 0);
    assert_int_equal(mare_time_leaps_possible(known, 0, JAN_2017 * S), 37 - 10);
    /* From 28 June 2027 to the same day of the next year: twelve months end. */
    assert_int_equal(
        mare_time_leaps_possible(known, JAN_2017 * S, (known->expires_s + 366 * 86400) * S), 12);
    for (int i = 0; i < 200000; i++) {
        int64_t from = (int64_t)(unit_random(&seed) >> 2) - INT64_MAX / 4; /* 1897 … 2043 */
        int64_t to = from + (int64_t)(unit_random(&seed) % (UINT64_C(1) << (i % 61)));
        assert_int_equal(mare_time_leaps_possible(&none, from, to), month_of(to) - month_of(from));
        assert_int_equal(mare_time_leaps_possible(&none, to, from - 1), 0);
    }
}

UNIT_TESTS(cmocka_unit_test(the_exercise_gives_600_ms), cmocka_unit_test(the_timer_of_60_hz),
           cmocka_unit_test(make_is_not_fooled), cmocka_unit_test(clocks_on_the_power_line),
           cmocka_unit_test(a_skew_of_large_numbers), cmocka_unit_test(two_clocks_part_by_two_rho),
           cmocka_unit_test(nobody_has_set_it), cmocka_unit_test(the_first_setting_is_a_jump),
           cmocka_unit_test(ticks_of_9_and_11), cmocka_unit_test(a_late_finding_is_carried_forward),
           cmocka_unit_test(a_rate_is_taken_up),
           cmocka_unit_test(a_bound_counts_the_corrected_time),
           cmocka_unit_test(a_rate_that_cannot_be_kept_is_refused),
           cmocka_unit_test(a_finding_replaces_the_one_before),
           cmocka_unit_test(it_never_goes_back), cmocka_unit_test(an_oscillator_that_goes_back),
           cmocka_unit_test(gps_was_14_seconds_ahead), cmocka_unit_test(the_table_expires),
           cmocka_unit_test(the_last_night_of_2016), cmocka_unit_test(a_second_left_out),
           cmocka_unit_test(leap_seconds_that_may_be))
