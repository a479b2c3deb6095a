/* SPDX-License-Identifier: MIT */

/* An NTP association with one server.
 *
 *            ask                     take: the origin is our stamp
 *     idle ───────▶ pending ────────────────────────────────▶ idle, one sample more
 *       ▲              │  take: anything else is counted and dropped
 *       └── ask again ─┘  (the old question is forgotten, and with it late answers)
 *
 * Where the bound of a sample comes from. The server says how wrong its clock may be at T2 and T3:
 * by E, root delay / 2 + root dispersion. The question left at T1 and arrived later. The answer
 * arrived after T3. So at T4 the truth lies between T3 − E and T2 + E + (T4 − T1). Our oscillator
 * measured T4 − T1, which may be wrong by its drift. The middle of this interval is T4 + θ, and
 * half its width is δ + E + drift. Nothing is assumed about the network: one way may take no time
 * and the other all of it.
 *
 * The filter keeps eight samples. The bound of each grows with our drift, so the best is the one of
 * the smallest δ + drift since: among samples of the same age, the smallest δ. */

#include "coord/time/fixed.h"

#include <mare/coord_ntp.h>

#include <string.h>

#define VERSION 4
#define POLL_LIMIT 17
#define UNFIT_NS (16 * MARE__PPB) /* MAXDISP */
#define LEAP_NEAR (2 * MARE_TIME_SECOND)
#define DAY_NS (86400 * MARE_TIME_SECOND)

const char *mare_ntp_verdict_name(mare_ntp_verdict verdict)
{
    static const char *const names[] = {"taken",  "kiss",  "malformed", "bogus",    "duplicate",
                                        "forged", "unfit", "absurd",    "ambiguous"};
    return (unsigned)verdict < MARE_NTP_VERDICTS ? names[verdict] : "unknown";
}

mare_ntp_exchange mare_ntp_measure(int64_t t1_ns, int64_t t2_ns, int64_t t3_ns, int64_t t4_ns)
{
    int64_t there = t2_ns - t1_ns, back = t3_ns - t4_ns; /* each about θ: their sum may overflow */
    int64_t twice = there - back;
    return (mare_ntp_exchange){.offset_ns = back + twice / 2,
                               .delay_ns = (twice + (twice > 0)) / 2};
}

void mare_ntp_client_init(mare_ntp_client *client, const mare_ntp_setup *setup)
{
    memset(client, 0, sizeof *client);
    client->setup = *setup;
    if (setup->key) {
        client->key = *setup->key;
        client->setup.key = NULL;
    }
    client->poll = setup->poll_least;
}

uint32_t mare_ntp_client_ask(mare_ntp_client *client, int64_t local_ns, uint64_t nonce,
                             uint8_t out[MARE_NTP_PACKET_BYTES])
{
    if (client->refused)
        return 0;
    nonce |= nonce == 0; /* a stamp of 0 is what those send who have none */
    mare_ntp_packet packet = {
        .version = VERSION, .mode = MARE_NTP_CLIENT, .poll = client->poll, .transmit = nonce};
    client->asked = nonce;
    client->asked_ns = local_ns;
    client->pending = 1;
    client->reach = client->reach << 1 & 0xff;
    return mare_ntp_encode(&packet, client->key.id ? &client->key : NULL, out);
}

/* Taking an answer ---------------------------------------------------------------------------- */

/* At stratum 0 the reference identifier is a kiss code, if it is text. */
static int is_kiss(const mare_ntp_packet *packet)
{
    for (unsigned shift = 0; shift < 32; shift += 8) {
        uint8_t letter = (uint8_t)(packet->reference_id >> shift);
        if (letter < 'A' || letter > 'Z')
            return 0;
    }
    return packet->stratum == 0;
}

/* RATE asks for patience, DENY and RSTR for none of our company (RFC 5905, 7.4); other codes are
 * news for the log. */
static mare_ntp_verdict take_kiss(mare_ntp_client *client, const mare_ntp_packet *packet)
{
    client->kiss = packet->reference_id;
    if (client->kiss == mare_ntp_letters("RATE")) {
        int8_t most = client->setup.poll_most < POLL_LIMIT ? client->setup.poll_most : POLL_LIMIT;
        client->poll = (int8_t)(client->poll < most ? client->poll + 1 : most);
    }
    if (client->kiss == mare_ntp_letters("DENY") || client->kiss == mare_ntp_letters("RSTR"))
        client->refused = 1;
    return MARE_NTP_KISS;
}

/* The bound that the server gives for its own clock. */
static uint64_t bound_of(const mare_ntp_packet *packet)
{
    uint64_t precision_ns = 0;
    if (packet->precision < 0)
        precision_ns = packet->precision > -30 ? MARE__PPB >> -packet->precision : 1;
    else
        precision_ns = UNFIT_NS;
    return mare_ntp_unshort(packet->root_delay) / 2 + mare_ntp_unshort(packet->root_dispersion) +
           precision_ns;
}

/* A stamp of the server on the scale of our estimates. */
static int64_t instant(const mare_ntp_client *client, uint64_t stamp)
{
    int64_t utc_ns = mare_ntp_unstamp(stamp, client->setup.near_ns);
    return client->setup.leaps ? mare_time_tai_from_utc(client->setup.leaps, utc_ns) : utc_ns;
}

void mare_ntp_client_forget(mare_ntp_client *client)
{
    client->count = client->next = 0;
    client->pending = 0;
}

static uint64_t age_of(const mare_ntp_sample *sample, int64_t local_ns)
{
    return local_ns > sample->local_ns ? (uint64_t)(local_ns - sample->local_ns) : 0;
}

static uint64_t aged(const mare_ntp_client *client, const mare_ntp_sample *sample, int64_t local_ns)
{
    return mare__drift_bound(age_of(sample, local_ns), client->setup.drift_ppb);
}

/* Whether a sample and one before it cannot both be within their bounds of the same time: the
 * server's clock, or ours, was set. */
static int contradicts(const mare_ntp_client *client, const mare_ntp_sample *fresh)
{
    for (uint32_t i = 0; i < client->count; i++) {
        const mare_ntp_sample *old = &client->sample[i];
        uint64_t apart = mare__size(fresh->offset_ns - old->offset_ns);
        uint64_t explained = mare__add_bound(fresh->error_ns, old->error_ns);
        if (apart > mare__add_bound(explained, aged(client, old, fresh->local_ns)))
            return 1;
    }
    return 0;
}

uint32_t mare_ntp_leaps_since(int64_t said_ns, mare_ntp_leap announced, int64_t until_ns)
{
    uint32_t possible = mare_time_leaps_possible(mare_time_leaps_known(), said_ns, until_ns);
    int64_t into_day = (said_ns % DAY_NS + DAY_NS) % DAY_NS;
    int expected = announced == MARE_NTP_LEAP_INSERT || announced == MARE_NTP_LEAP_DELETE;
    return possible == 0 && expected && until_ns - said_ns >= DAY_NS - into_day ? 1 : possible;
}

/* Leap seconds that may have come between the server's last answer and some UTC. Counting in TAI
 * there is nothing to be afraid of. */
static uint32_t leaps_since(const mare_ntp_client *client, int64_t until_ns)
{
    if (client->setup.leaps || client->last.version == 0)
        return 0;
    return mare_ntp_leaps_since(mare_ntp_unstamp(client->last.transmit, client->setup.near_ns),
                                (mare_ntp_leap)client->last.leap, until_ns);
}

mare_ntp_verdict mare_ntp_client_note(mare_ntp_client *client, int64_t t1_ns, int64_t t2_ns,
                                      int64_t t3_ns, int64_t t4_ns, uint64_t server_error_ns)
{
    const mare_ntp_setup *setup = &client->setup;
    int64_t waited_ns = t4_ns - t1_ns;
    if (waited_ns < 0 || t3_ns < t2_ns)
        return MARE_NTP_ABSURD;
    mare_ntp_exchange exchange = mare_ntp_measure(t1_ns, t2_ns, t3_ns, t4_ns);
    uint64_t around = server_error_ns + 2 * setup->precision_ns +
                      mare__drift_bound((uint64_t)waited_ns, setup->drift_ppb);
    /* The server's clock may be faster than ours, but not by more than the bounds explain. */
    if (exchange.delay_ns < 0 && mare__size(exchange.delay_ns) > around)
        return MARE_NTP_ABSURD;
    if (exchange.delay_ns < 0)
        exchange.delay_ns = 0;
    mare_ntp_sample fresh = {.local_ns = t4_ns,
                             .offset_ns = exchange.offset_ns,
                             .delay_ns = exchange.delay_ns,
                             .error_ns = (uint64_t)exchange.delay_ns + around};
    if (contradicts(client, &fresh))
        mare_ntp_client_forget(client);
    client->sample[client->next] = fresh;
    client->next = (client->next + 1) % MARE_NTP_FILTER;
    client->count += client->count < MARE_NTP_FILTER;
    return MARE_NTP_TAKEN;
}

static mare_ntp_verdict take_sample(mare_ntp_client *client, int64_t local_ns,
                                    const mare_ntp_packet *packet)
{
    const mare_ntp_setup *setup = &client->setup;
    if (setup->leaps &&
        mare_time_leap_near(setup->leaps, mare_ntp_unstamp(packet->transmit, setup->near_ns),
                            LEAP_NEAR))
        return MARE_NTP_AMBIGUOUS;
    if (leaps_since(client, instant(client, packet->transmit)))
        mare_ntp_client_forget(client); /* what was measured on the other side of the leap */
    mare_ntp_verdict verdict =
        mare_ntp_client_note(client, client->asked_ns, instant(client, packet->receive),
                             instant(client, packet->transmit), local_ns, bound_of(packet));
    if (verdict == MARE_NTP_TAKEN) {
        client->last = *packet;
        client->reach |= 1;
    }
    return verdict;
}

static mare_ntp_verdict judge(mare_ntp_client *client, int64_t local_ns, const uint8_t *bytes,
                              uint32_t length)
{
    mare_ntp_packet packet;
    if (!mare_ntp_decode(bytes, length, &packet) || packet.mode != MARE_NTP_SERVER ||
        packet.version < 3 || packet.version > VERSION)
        return MARE_NTP_MALFORMED;
    if (!client->pending)
        return packet.origin == client->asked ? MARE_NTP_DUPLICATE : MARE_NTP_BOGUS;
    if (packet.origin != client->asked)
        return MARE_NTP_BOGUS;
    if (client->key.id && !mare_ntp_authentic(bytes, &packet, &client->key))
        return MARE_NTP_FORGED;
    client->pending = 0;
    if (is_kiss(&packet))
        return take_kiss(client, &packet);
    if (packet.stratum == 0 || packet.leap == MARE_NTP_LEAP_UNKNOWN ||
        packet.stratum >= MARE_NTP_UNSYNCHRONISED || packet.transmit == 0 || packet.receive == 0 ||
        bound_of(&packet) >= UNFIT_NS)
        return MARE_NTP_UNFIT;
    return take_sample(client, local_ns, &packet);
}

mare_ntp_verdict mare_ntp_client_take(mare_ntp_client *client, int64_t local_ns,
                                      const uint8_t *bytes, uint32_t length)
{
    mare_ntp_verdict verdict = judge(client, local_ns, bytes, length);
    client->verdicts[verdict]++;
    return verdict;
}

uint64_t mare_ntp_client_wait_ns(const mare_ntp_client *client)
{
    int poll = client->poll < 0 ? 0 : client->poll > POLL_LIMIT ? POLL_LIMIT : client->poll;
    return MARE__PPB << poll;
}

/* The filter ---------------------------------------------------------------------------------- */

/* δ as it has grown with age; what the samples of one server are told apart by. */
static uint64_t rank(const mare_ntp_client *client, const mare_ntp_sample *sample, int64_t local_ns)
{
    return (uint64_t)sample->delay_ns + aged(client, sample, local_ns);
}

static uint64_t jitter_of(const mare_ntp_client *client, const mare_ntp_sample *best)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < client->count; i++)
        sum += mare__size(client->sample[i].offset_ns - best->offset_ns) / MARE_NTP_FILTER;
    return client->count > 1 ? sum / (client->count - 1) * MARE_NTP_FILTER : 0;
}

int mare_ntp_client_best(const mare_ntp_client *client, int64_t local_ns,
                         mare_ntp_estimate *estimate)
{
    const mare_ntp_sample *best = client->sample;
    if (client->count == 0)
        return 0;
    for (uint32_t i = 1; i < client->count; i++) {
        if (rank(client, &client->sample[i], local_ns) < rank(client, best, local_ns))
            best = &client->sample[i];
    }
    *estimate = (mare_ntp_estimate){
        .time_ns = local_ns + best->offset_ns,
        .error_ns = mare__add_bound(best->error_ns, aged(client, best, local_ns)),
        .delay_ns = best->delay_ns,
        .age_ns = age_of(best, local_ns),
        .jitter_ns = jitter_of(client, best),
        .root_delay_ns = mare_ntp_unshort(client->last.root_delay) + 2 * (uint64_t)best->delay_ns,
        .stratum = client->last.stratum,
        .reference_id = client->last.reference_id,
        .samples = client->count,
        .leap = (mare_ntp_leap)client->last.leap};
    /* A second before it, as one may be left out, and by the latest that it may be now. */
    uint64_t late_ns = mare__add_bound(estimate->error_ns, MARE__PPB);
    int64_t until_ns = late_ns < (uint64_t)DAY_NS ? estimate->time_ns + (int64_t)late_ns
                                                  : estimate->time_ns + DAY_NS;
    estimate->error_ns =
        mare__add_bound(estimate->error_ns, leaps_since(client, until_ns) * (uint64_t)MARE__PPB);
    return 1;
}
