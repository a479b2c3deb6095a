/* SPDX-License-Identifier: MIT */
#pragma once

/* Physical time: the model of a clock, the disciplined clock, leap seconds, and reference
 * broadcasts. coord_ntp.h has the network time protocol; Berkeley's algorithm is `berkeley` in the
 * table of coord.h.
 *
 * Instants and spans are 64-bit numbers of nanoseconds. An instant on a calendar counts from 1970
 * (292 years either way), a *local* one from anywhere within 2^61 of zero: it is what the machine's
 * oscillator has counted, which nobody ever changes. Rates are parts in 10^9 (ppb). There is no
 * floating point, so nothing is lost when large instants are subtracted, and every compiler gives
 * the same bits.
 *
 * Every result comes with an error bound: the truth is not further away than that, as long as the
 * local oscillator keeps to its maximum drift rate.
 *
 * Threads: nothing here blocks, locks or allocates; everything lives in memory of the caller and is
 * used by one thread at a time.
 *
 * Sources: Tanenbaum and Van Steen, "Distributed Systems", section 6.1; Cristian, "Probabilistic
 * clock synchronization" (1989); Elson, Girod and Estrin, "Fine-Grained Network Time
 * Synchronization using Reference Broadcasts" (2002). */

#include <mare/coord_clock.h>

#define MARE_TIME_SECOND INT64_C(1000000000) /* nanoseconds, and parts in a rate of 1 */
#define MARE_TIME_UNKNOWN UINT64_MAX         /* an error bound: nothing is known */

/* The model ----------------------------------------------------------------------------------- */

/* A clock p as the theory sees it: C(t) = t + offset + skew × t. Its frequency is C'(t) = 1 + skew.
 * It works within its specification while |skew| does not exceed the maximum drift rate ρ. */
typedef struct mare_time_model {
    int64_t offset_ns; /* C(0) */
    int64_t skew_ppb;
    uint64_t drift_ppb; /* ρ */
} mare_time_model;

/* C(t): what the clock shows at the true time t. */
MARE_COORD_EXPORT int64_t mare_time_model_read(const mare_time_model *model, int64_t true_ns);

/* C(t) − t: the clock's offset at the true time t. */
MARE_COORD_EXPORT int64_t mare_time_model_offset(const mare_time_model *model, int64_t true_ns);

/* Nonzero when 1 − ρ ≤ C'(t) ≤ 1 + ρ. */
MARE_COORD_EXPORT int mare_time_model_in_spec(const mare_time_model *model);

/* The skew of a clock that ticks `actual` times where it should tick `nominal` times; 0 when
 * `nominal` is, and cut to 64 bits. */
MARE_COORD_EXPORT int64_t mare_time_skew_ppb(uint64_t nominal, uint64_t actual);

/* 2ρΔt: how far two clocks can be apart, so long after they agreed. Rounded up. */
MARE_COORD_EXPORT uint64_t mare_time_apart_ns(uint64_t drift_ppb, uint64_t elapsed_ns);

/* δ/2ρ: how often two clocks must be synchronised to stay within δ of each other. Rounded down;
 * UINT64_MAX when ρ is 0. */
MARE_COORD_EXPORT uint64_t mare_time_resync_ns(uint64_t drift_ppb, uint64_t apart_ns);

/* The disciplined clock ----------------------------------------------------------------------- */

/* What an application gets to know when it asks for the time: the truth lies within
 * time_ns ± error_ns. */
typedef struct mare_time_reading {
    int64_t time_ns;
    uint64_t error_ns; /* MARE_TIME_UNKNOWN: the clock has never been set */
} mare_time_reading;

/* A clock for applications on top of a local oscillator. It never goes back, not by a nanosecond:
 * a correction is slewed in, which means that for a while each local second adds a little less or a
 * little more than a second, until the correction is done. The first setting, before anybody has
 * read the clock, is a jump. While a correction is under way the rest of it is part of the error
 * bound. Fields are for mare_time_clock_… alone. */
typedef struct mare_time_clock {
    uint64_t drift_ppb, slew_ppb;
    int64_t rate_ppb;
    int64_t local_ns, shown_ns, gap_ns; /* at local_ns it showed shown_ns, and lacked gap_ns */
    uint64_t error_ns;                  /* of shown_ns + gap_ns */
    int64_t last_ns;                    /* the largest reading given out */
    uint32_t set, read;
} mare_time_clock;

/* Prepares a clock that nobody has set. `drift_ppb` is the oscillator's ρ (15,000, 15 parts in a
 * million, is what NTP supposes of every clock), `slew_ppb` how fast corrections go in: 500,000 is
 * the tradition of adjtime, 100,000,000 the example of the book, a tick of 9 or 11 ms in place of
 * 10. Both are cut to at most 500,000,000. */
MARE_COORD_EXPORT void mare_time_clock_init(mare_time_clock *clock, uint64_t drift_ppb,
                                            uint64_t slew_ppb);

/* It was found that at the local instant `local_ns` the true time is `time_ns` ± `error_ns`. From
 * now on the clock moves there. What was known before is replaced, also by something with a wider
 * bound: the clock cannot tell whether the old finding still holds (UTC steps at leap seconds), so
 * with several of them choose one, as mare_ntp_client_best does. */
MARE_COORD_EXPORT void mare_time_clock_set(mare_time_clock *clock, int64_t local_ns,
                                           int64_t time_ns, uint64_t error_ns);

/* The same correction relative to where the clock is heading: `by_ns` forward or back. A clock that
 * was never set is set first, to the local time, with no error. */
MARE_COORD_EXPORT void mare_time_clock_move(mare_time_clock *clock, int64_t local_ns, int64_t by_ns,
                                            uint64_t error_ns);

/* The oscillator is known to be slow by `rate_ppb` (fast when negative), and after this correction
 * within `drift_ppb` of the truth. 0, and nothing changes, when the rate is beyond ±400,000,000 or
 * the drift beyond 500,000,000: the line could not be kept rising, or its bound not be kept. */
MARE_COORD_EXPORT int mare_time_clock_tune(mare_time_clock *clock, int64_t local_ns,
                                           int64_t rate_ppb, uint64_t drift_ppb);

/* Reads the clock at a local instant. Never less than a reading before. Local instants that go
 * back, which no oscillator makes, are answered with the last reading. */
MARE_COORD_EXPORT mare_time_reading mare_time_clock_read(mare_time_clock *clock, int64_t local_ns);

/* Where the clock is heading: the reading with all corrections done. This one may step. */
MARE_COORD_EXPORT mare_time_reading mare_time_clock_target(const mare_time_clock *clock,
                                                           int64_t local_ns);

/* Nanoseconds of correction that are still to be slewed in. */
MARE_COORD_EXPORT int64_t mare_time_clock_gap(const mare_time_clock *clock, int64_t local_ns);

/* Berkeley ------------------------------------------------------------------------------------- */

struct mare_coord;

/* The clock of a member of a `berkeley` group, to be read (a copy of it, to leave the machine as it
 * is) with the local instant in nanoseconds. `epoch` and `round` (may be NULL) say which round it
 * follows: two clocks of the same round differ by at most the sum of their errors. NULL for a
 * machine of another algorithm. The clock belongs to the machine. */
MARE_COORD_EXPORT const mare_time_clock *mare_berkeley_clock(const struct mare_coord *machine,
                                                             uint64_t *epoch, uint64_t *round);

/* The mean that the daemon of a `berkeley` group computes: of the largest set of clocks that are
 * within `agree_ns` of each other; the rest are broken. `clock_ns` has `count` of them, at least
 * one, less than 2^63 apart, and is sorted on return. */
MARE_COORD_EXPORT int64_t mare_berkeley_mean(int64_t *clock_ns, uint32_t count, int64_t agree_ns);

/* Reference broadcasts ------------------------------------------------------------------------- */

#define MARE_RBS_WINDOW 32

/* What one receiver knows of another one's clock. Both note when they heard the same broadcasts and
 * tell each other. It does not matter who sent them, or when. Nobody's clock is changed. The oldest
 * of more than 32 pairs are forgotten. Fields may be read. */
typedef struct mare_rbs {
    uint64_t jitter_ns;  /* one receiver hears a broadcast at most so much later than the other */
    uint64_t drift_ppb;  /* ρ of both */
    uint64_t wander_ppb; /* by how much their rates differ from a constant difference, at most */
    uint32_t heard, pairs;
    uint64_t number[MARE_RBS_WINDOW]; /* of broadcasts heard here, and when */
    int64_t heard_ns[MARE_RBS_WINDOW];
    int64_t mine_ns[MARE_RBS_WINDOW], theirs_ns[MARE_RBS_WINDOW]; /* T_p,k and T_q,k */
    uint64_t matched[MARE_RBS_WINDOW];
} mare_rbs;

/* The other one's clock against ours, at some local instant t: ours minus theirs. */
typedef struct mare_rbs_offset {
    int64_t offset_ns;
    uint64_t error_ns;
    int64_t alpha_ppb; /* the slope of the line; 0 for a mean */
    int64_t beta_ns;   /* offset(t) = α × (t − origin) + β */
    int64_t origin_ns; /* the mean of the instants, so that nothing large is multiplied */
    uint32_t pairs;    /* M */
} mare_rbs_offset;

/* Prepares an empty record. */
MARE_COORD_EXPORT void mare_rbs_init(mare_rbs *rbs, uint64_t jitter_ns, uint64_t drift_ppb,
                                     uint64_t wander_ppb);

/* Broadcast `number` was heard here at `local_ns`. A number is noted once. */
MARE_COORD_EXPORT void mare_rbs_hear(mare_rbs *rbs, uint64_t number, int64_t local_ns);

/* The other one heard it at `their_ns` by its own clock. Nonzero when it makes a new pair. */
MARE_COORD_EXPORT int mare_rbs_match(mare_rbs *rbs, uint64_t number, int64_t their_ns);

/* The mean over the pairs: Σ(T_p,k − T_q,k) / M. Holds without any supposition on how the clocks
 * drift, within ρ. 0: there are no pairs. */
MARE_COORD_EXPORT int mare_rbs_mean(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset);

/* The line by least squares, α × t + β. Needs three pairs, the furthest a millisecond or more from
 * the mean of their instants, and a t that is within 16 times that of it; 0 otherwise. */
MARE_COORD_EXPORT int mare_rbs_line(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset);

#define MARE_RBS_NAME 8
#define MARE_RBS_PACKET_BYTES 48

/* What travels: the broadcasts, and what receivers tell each other of them. */
typedef enum mare_rbs_kind { MARE_RBS_BEACON = 1, MARE_RBS_REPORT = 2 } mare_rbs_kind;

/* A packet taken apart. `series` is a number that the sender of broadcasts draws when it begins, so
 * that two senders are told apart; a receiver that meets a new one begins anew. */
typedef struct mare_rbs_packet {
    mare_rbs_kind kind;
    uint64_t series, number;
    uint64_t who;    /* a report: which receiver, a number drawn when it began */
    int64_t when_ns; /* … and when it heard the broadcast, by its own clock */
    char name[MARE_RBS_NAME + 1];
} mare_rbs_packet;

/* Writes a packet. */
MARE_COORD_EXPORT void mare_rbs_encode(const mare_rbs_packet *packet,
                                       uint8_t out[MARE_RBS_PACKET_BYTES]);

/* Nonzero when the bytes are one. */
MARE_COORD_EXPORT int mare_rbs_decode(const uint8_t *bytes, uint32_t length,
                                      mare_rbs_packet *packet);

/* TAI, UTC and leap seconds ------------------------------------------------------------------- */

/* From this second of UTC on (since 1970, as POSIX counts: every day has 86,400), TAI is ahead by
 * so many seconds. */
typedef struct mare_time_leap {
    int64_t utc_s;
    int32_t tai_ahead_s;
} mare_time_leap;

/* A table of them, sorted; the memory is the caller's. */
typedef struct mare_time_leaps {
    const mare_time_leap *entry;
    uint32_t count;
    int64_t expires_s; /* from this second of UTC on there may be more; 0: nobody knows */
} mare_time_leaps;

/* The table up to 2017; since then TAI is 37 seconds ahead. It expires on 28 June 2027: when it was
 * written, the IERS had announced that nothing changes until then. A constant. */
MARE_COORD_EXPORT const mare_time_leaps *mare_time_leaps_known(void);

/* Nonzero when the table is not known to be complete at this UTC: TAI may be further ahead. */
MARE_COORD_EXPORT int mare_time_leaps_expired(const mare_time_leaps *leaps, int64_t utc_ns);

/* UTC as POSIX and NTP count it to TAI. Before 1972 the first entry is used. A leap second makes
 * two instants share a number: the result is the first of them. */
MARE_COORD_EXPORT int64_t mare_time_tai_from_utc(const mare_time_leaps *leaps, int64_t utc_ns);

/* TAI to UTC. `leap` (may be NULL) is set to 1 inside an inserted second, 23:59:60, which gets the
 * numbers of 23:59:59 a second time, and to 0 outside. */
MARE_COORD_EXPORT int64_t mare_time_utc_from_tai(const mare_time_leaps *leaps, int64_t tai_ns,
                                                 int *leap);

/* Nonzero when a leap second is within `near_ns` of this UTC, so that stamps may be ambiguous. */
MARE_COORD_EXPORT int mare_time_leap_near(const mare_time_leaps *leaps, int64_t utc_ns,
                                          int64_t near_ns);

/* How many leap seconds there may be after `from_ns` and not after `to_ns`, UTC: those of the table
 * and, once it has expired, one at the end of every month, the only times when there may be one
 * (ITU-R TF.460). */
MARE_COORD_EXPORT uint32_t mare_time_leaps_possible(const mare_time_leaps *leaps, int64_t from_ns,
                                                    int64_t to_ns);

/* What changes at the end of the UTC day of `utc_ns`: 1 a second is inserted, −1 one is left out,
 * 0 nothing. */
MARE_COORD_EXPORT int mare_time_leap_today(const mare_time_leaps *leaps, int64_t utc_ns);
