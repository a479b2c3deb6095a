/* SPDX-License-Identifier: MIT */
#pragma once

/* The network time protocol, version 4, as client and as server, without input or output.
 *
 * A client asks a server with a packet, notes when it left and when the answer came by its own
 * oscillator, and gets the time with a bound of its error (Cristian's method). It trusts the one of
 * the last eight answers that had the shortest round trip. With several servers it finds the time
 * that a majority of them agrees on, and leaves the others out.
 *
 *     mare_ntp_client client;
 *     mare_ntp_client_init(&client, &setup);
 *     uint32_t length = mare_ntp_client_ask(&client, local_now(), random_number(), packet);
 *     send_to_server(packet, length);
 *     …                                                  // when something has arrived:
 *     mare_ntp_client_take(&client, local_now(), bytes, count);
 *     mare_ntp_estimate estimate;
 *     if (mare_ntp_client_best(&client, local_now(), &estimate))
 *         mare_time_clock_set(&clock, local_now(), estimate.time_ns, estimate.error_ns);
 *
 * `local` instants are those of an oscillator that nobody adjusts; see coord_time.h. Threads: as
 * there.
 *
 * Sources: RFC 5905 (the protocol), RFC 7822 (extension fields), RFC 8573 (AES-CMAC in place of
 * MD5); Marzullo, "Maintaining the time in a distributed system" (1984); Tanenbaum and Van Steen,
 * "Distributed Systems", 6.1.3. */

#include <mare/coord_time.h>

#define MARE_NTP_HEADER_BYTES 48
#define MARE_NTP_MAC_BYTES 20    /* the number of the key and an AES-128-CMAC */
#define MARE_NTP_PACKET_BYTES 68 /* the largest that this library writes */
#define MARE_NTP_PORT 123
#define MARE_NTP_UNSYNCHRONISED 16 /* a stratum: not connected to any reference */

/* Stamps --------------------------------------------------------------------------------------- */

/* Nanoseconds since 1970 as a 64-bit stamp: seconds since 1900, modulo 2^32 (the era is left out),
 * and a binary fraction. */
MARE_COORD_EXPORT uint64_t mare_ntp_stamp(int64_t utc_ns);

/* Back: of all instants with this stamp, 136 years apart, the one nearest to `near_ns`. So the end
 * of an era, in February 2036, is nothing special. Takes back what mare_ntp_stamp made, exactly. */
MARE_COORD_EXPORT int64_t mare_ntp_unstamp(uint64_t stamp, int64_t near_ns);

/* The 32-bit format of root delay and dispersion, 16 bits of seconds and 16 of fraction, and back.
 * Rounded up, and at most 0xffffffff: bounds stay bounds. */
MARE_COORD_EXPORT uint32_t mare_ntp_short(uint64_t span_ns);
MARE_COORD_EXPORT uint64_t mare_ntp_unshort(uint32_t span);

/* Packets -------------------------------------------------------------------------------------- */

/* What the two bits of the leap indicator say. */
typedef enum mare_ntp_leap {
    MARE_NTP_LEAP_NONE,
    MARE_NTP_LEAP_INSERT,  /* the last minute of the day has 61 seconds */
    MARE_NTP_LEAP_DELETE,  /* … 59 seconds */
    MARE_NTP_LEAP_UNKNOWN, /* the clock is not synchronised */
} mare_ntp_leap;

/* The association modes that matter here. */
enum { MARE_NTP_CLIENT = 3, MARE_NTP_SERVER = 4 };

/* A packet taken apart. Stamps and short numbers are as on the wire. */
typedef struct mare_ntp_packet {
    uint8_t leap, version, mode;
    uint8_t stratum;        /* as on the wire: 0 is unspecified, or a kiss */
    int8_t poll, precision; /* binary logarithms of seconds */
    uint32_t root_delay, root_dispersion;
    uint32_t reference_id; /* four letters at stratum 0 and 1, the first in the highest byte */
    uint64_t reference, origin, receive, transmit;
    uint32_t key_id;    /* when mac_bytes is not 0 */
    uint32_t mac_at;    /* bytes before the MAC, extension fields included */
    uint32_t mac_bytes; /* key number and digest: 0 none, 4 a crypto-NAK, 20, 24 */
} mare_ntp_packet;

/* A symmetric key, for AES-128-CMAC. Number 0 is nobody's. */
typedef struct mare_ntp_key {
    uint32_t id;
    uint8_t secret[16];
} mare_ntp_key;

/* Writes the 48 bytes, and the MAC when there is a key: 48 or 68. */
MARE_COORD_EXPORT uint32_t mare_ntp_encode(const mare_ntp_packet *packet, const mare_ntp_key *key,
                                           uint8_t out[MARE_NTP_PACKET_BYTES]);

/* Nonzero when the bytes are a packet: a header, any extension fields (which are skipped), at most
 * one MAC. */
MARE_COORD_EXPORT int mare_ntp_decode(const uint8_t *bytes, uint32_t length,
                                      mare_ntp_packet *packet);

/* Nonzero when the packet carries a MAC that this key made. Takes as long for a wrong one. */
MARE_COORD_EXPORT int mare_ntp_authentic(const uint8_t *bytes, const mare_ntp_packet *packet,
                                         const mare_ntp_key *key);

/* AES-128-CMAC (RFC 4493) of `length` bytes. */
MARE_COORD_EXPORT void mare_ntp_cmac(const uint8_t secret[16], const uint8_t *bytes,
                                     uint32_t length, uint8_t mac[16]);

/* One exchange --------------------------------------------------------------------------------- */

/* What the four instants of a question and its answer say: it left at T1 and came back at T4 by our
 * clock, arrived at T2 and left at T3 by the server's. */
typedef struct mare_ntp_exchange {
    int64_t offset_ns; /* θ = ((T2 − T1) + (T3 − T4)) / 2: the server's clock minus ours */
    int64_t delay_ns;  /* δ = ((T2 − T1) + (T4 − T3)) / 2: one way, on average, rounded up */
} mare_ntp_exchange;

/* θ and δ. δ is half of what RFC 5905 calls the delay, and the error of θ is at most δ, whatever
 * the two ways took. */
MARE_COORD_EXPORT mare_ntp_exchange mare_ntp_measure(int64_t t1_ns, int64_t t2_ns, int64_t t3_ns,
                                                     int64_t t4_ns);

/* The client ----------------------------------------------------------------------------------- */

#define MARE_NTP_FILTER 8

/* What became of a packet that arrived. Only the first two count as an answer. */
typedef enum mare_ntp_verdict {
    MARE_NTP_TAKEN,     /* a sample */
    MARE_NTP_KISS,      /* the server refuses: client.kiss has its code */
    MARE_NTP_MALFORMED, /* no packet, or not of a version and mode that answers ours */
    MARE_NTP_BOGUS,     /* it does not answer our last question: the origin is wrong */
    MARE_NTP_DUPLICATE, /* it answers one that was answered already, or none was asked */
    MARE_NTP_FORGED,    /* we have a key, and the MAC is missing or wrong */
    MARE_NTP_UNFIT,     /* the server is not synchronised, or further than 16 s from the truth */
    MARE_NTP_ABSURD,    /* its stamps contradict each other or our clock */
    MARE_NTP_AMBIGUOUS, /* a leap second is near, and we count in TAI */
    MARE_NTP_VERDICTS
} mare_ntp_verdict;

/* The name of a verdict, a constant string. */
MARE_COORD_EXPORT const char *mare_ntp_verdict_name(mare_ntp_verdict verdict);

/* What a client is made from; copied. */
typedef struct mare_ntp_setup {
    uint64_t drift_ppb;           /* ρ of our oscillator */
    uint64_t precision_ns;        /* how coarse our stamps are */
    int64_t near_ns;              /* any instant within 68 years of now, UTC: it tells the era */
    int8_t poll_least, poll_most; /* between questions: 2^n seconds; RFC 5905 has 4 and 17 */
    const mare_time_leaps *leaps; /* estimates are TAI by this table; NULL: UTC as the server */
    const mare_ntp_key *key;      /* copied too; NULL: no authentication */
} mare_ntp_setup;

/* One answer, as it was when it came. */
typedef struct mare_ntp_sample {
    int64_t local_ns;  /* T4 */
    int64_t offset_ns; /* θ: the server's clock minus the local one */
    int64_t delay_ns;  /* δ */
    uint64_t error_ns; /* of θ against the truth, at T4 */
} mare_ntp_sample;

/* What is known by one server's answers at some local instant. */
typedef struct mare_ntp_estimate {
    int64_t time_ns;        /* now */
    uint64_t error_ns;      /* the truth is within this */
    int64_t delay_ns;       /* δ of the sample that it rests on */
    uint64_t age_ns;        /* of that sample */
    uint64_t jitter_ns;     /* how much the other samples differ from it, on average */
    uint64_t root_delay_ns; /* there and back, all the way to the reference */
    uint32_t stratum, reference_id, samples;
    mare_ntp_leap leap;
} mare_ntp_estimate;

/* An association with one server. Fields may be read; mare_ntp_client_… alone change them. */
typedef struct mare_ntp_client {
    mare_ntp_setup setup;
    mare_ntp_key key;
    uint64_t asked;   /* our transmit stamp */
    int64_t asked_ns; /* T1 */
    uint32_t pending, count, next;
    mare_ntp_sample sample[MARE_NTP_FILTER];
    uint32_t reach;       /* one bit for each of the last eight questions: answered */
    int8_t poll;          /* now */
    uint32_t refused;     /* the server said DENY or RSTR: no more questions */
    uint32_t kiss;        /* the last kiss code, four letters */
    mare_ntp_packet last; /* the last answer that was taken */
    uint64_t verdicts[MARE_NTP_VERDICTS]; /* how many of each */
} mare_ntp_client;

/* Prepares an association that has asked nothing. */
MARE_COORD_EXPORT void mare_ntp_client_init(mare_ntp_client *client, const mare_ntp_setup *setup);

/* Writes a question, and returns its length; 0 when the server has refused to be asked. `nonce` is
 * a number that nobody can guess: it goes into the transmit stamp, which the answer must bring
 * back, so that it tells strangers nothing of our clock and keeps them from answering. */
MARE_COORD_EXPORT uint32_t mare_ntp_client_ask(mare_ntp_client *client, int64_t local_ns,
                                               uint64_t nonce, uint8_t out[MARE_NTP_PACKET_BYTES]);

/* A packet has come from the server's address at the local instant T4. */
MARE_COORD_EXPORT mare_ntp_verdict mare_ntp_client_take(mare_ntp_client *client, int64_t local_ns,
                                                        const uint8_t *bytes, uint32_t length);

/* The filter without the protocol: four instants of an exchange that was made by other means, the
 * server's on the scale of the estimates and within `server_error_ns` of the truth. TAKEN, or
 * ABSURD. */
MARE_COORD_EXPORT mare_ntp_verdict mare_ntp_client_note(mare_ntp_client *client, int64_t t1_ns,
                                                        int64_t t2_ns, int64_t t3_ns, int64_t t4_ns,
                                                        uint64_t server_error_ns);

/* Drops all samples: the local oscillator has stood still, or jumped. Gives up the question that is
 * under way, too, because nobody knows how long its answer took. */
MARE_COORD_EXPORT void mare_ntp_client_forget(mare_ntp_client *client);

/* Nanoseconds until the next question: the poll interval, longer after a RATE kiss. */
MARE_COORD_EXPORT uint64_t mare_ntp_client_wait_ns(const mare_ntp_client *client);

/* How many leap seconds may have come between an instant at which a server announced this and a
 * later one, both UTC: what it announced for the end of its day, what the table of leap seconds
 * knows, and, once that has expired, one at the end of every month, announced or not. Until the
 * server has answered again a time that is counted on from its answer may be wrong by so many
 * seconds; the estimates of a client have them in their error. */
MARE_COORD_EXPORT uint32_t mare_ntp_leaps_since(int64_t said_ns, mare_ntp_leap announced,
                                                int64_t until_ns);

/* The best of the last eight samples: the one with the smallest δ, where each has grown by what our
 * oscillator may have drifted since. 0: there is none. */
MARE_COORD_EXPORT int mare_ntp_client_best(const mare_ntp_client *client, int64_t local_ns,
                                           mare_ntp_estimate *estimate);

/* Several servers ------------------------------------------------------------------------------ */

#define MARE_NTP_SERVERS_MAX 32

/* What several servers say together. */
typedef struct mare_ntp_choice {
    mare_ntp_estimate estimate; /* the combined time and its error; the rest of the chosen peer */
    uint32_t peer;              /* index of the server that is followed */
    uint32_t survivors;         /* bit i: server i agrees with most others and was used */
    uint32_t outliers;          /* bit i: it does not */
} mare_ntp_choice;

/* Finds the time from `count` estimates (at most 32), all made for one instant, of which at most
 * `liars` are wrong about their own bounds; then the truth is within the error of the result. More
 * than `liars` must agree. If you ask m servers you can survive (m − 1) / 2 liars. Give that number
 * also while some are silent: of three servers two must agree, of five three. The intersection
 * (Marzullo) leaves outliers out. Of the rest, those that scatter most are put aside while more
 * than three are left (RFC 5905, 11.2.2). The combination is weighted by their errors. The peer is
 * the survivor of the lowest stratum, then of the smallest error. 0: they do not agree. */
MARE_COORD_EXPORT int mare_ntp_select(const mare_ntp_estimate *estimates, uint32_t count,
                                      uint32_t liars, mare_ntp_choice *choice);

/* The rule of the strata: whether one of stratum `own` adjusts to a server of stratum `theirs`. It
 * does if the server's is better, and then becomes theirs + 1. */
static inline int mare_ntp_follows(uint32_t own, uint32_t theirs)
{
    return theirs < MARE_NTP_UNSYNCHRONISED && theirs < own;
}

/* The server ----------------------------------------------------------------------------------- */

/* What a server tells of itself. Plain data, filled in by the caller. */
typedef struct mare_ntp_server {
    uint32_t stratum; /* 1 with a reference clock of one's own; the peer's + 1; 16 */
    uint32_t reference_id;
    int8_t precision;
    int64_t reference_ns;         /* when the clock was last set */
    uint64_t root_delay_ns;       /* of the way to the reference, a part of the error bound */
    const mare_time_leaps *leaps; /* readings are TAI by this table; NULL: UTC */
    mare_ntp_leap leap;           /* what to announce when readings are UTC */
    const mare_ntp_key *keys;     /* of the caller */
    uint32_t key_count;
    uint32_t authenticated_only; /* nonzero: questions without a MAC get no answer */
} mare_ntp_server;

/* Answers a question that arrived when our clock said `received`, with an answer that leaves at
 * `leaves`. Returns its length, 0 when the bytes deserve no answer: no question, or a MAC that is
 * wrong (a crypto-NAK would tell attackers more than friends). The dispersion that it tells covers
 * both readings: root delay / 2 + dispersion is not less than their errors. From an error of 16 s
 * on it says that it is not synchronised. */
MARE_COORD_EXPORT uint32_t mare_ntp_serve(const mare_ntp_server *server, const uint8_t *bytes,
                                          uint32_t length, mare_time_reading received,
                                          mare_time_reading leaves,
                                          uint8_t out[MARE_NTP_PACKET_BYTES]);

/* A kiss-o'-death in place of an answer: `code` is four letters, "RATE", "DENY", "RSTR". */
MARE_COORD_EXPORT uint32_t mare_ntp_refuse(const mare_ntp_server *server, const uint8_t *bytes,
                                           uint32_t length, const char code[4],
                                           uint8_t out[MARE_NTP_PACKET_BYTES]);

/* Four letters as a reference identifier or kiss code. */
static inline uint32_t mare_ntp_letters(const char code[4])
{
    return (uint32_t)(uint8_t)code[0] << 24 | (uint32_t)(uint8_t)code[1] << 16 |
           (uint32_t)(uint8_t)code[2] << 8 | (uint32_t)(uint8_t)code[3];
}
