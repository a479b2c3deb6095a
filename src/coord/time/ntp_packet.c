/* SPDX-License-Identifier: MIT */

/* NTP packets and stamps: RFC 5905, sections 6 and 7.3; RFC 7822 for what may follow the header.
 *
 *      0         8        16        24        32
 *      | LI VN Mode | Stratum | Poll | Precision |
 *      |               Root Delay                |
 *      |            Root Dispersion              |
 *      |              Reference ID               |
 *      |          Reference Timestamp (64)       |
 *      |            Origin Timestamp (64)        |
 *      |            Receive Timestamp (64)       |
 *      |           Transmit Timestamp (64)       |
 *      :  Extension fields, 28 bytes or more     :
 *      |   Key identifier, digest (16 or 20)     |
 *
 * What follows the header and is 4, 20 or 24 bytes long is a MAC; more than that begins with an
 * extension field, whose length is a multiple of four. */

#include "coord/time/fixed.h"

#include <mare/coord_ntp.h>

#include <string.h>

#define UNIX_EPOCH UINT64_C(2208988800) /* 1970 in seconds since 1900 */
#define ERA (INT64_C(1) << 32)          /* seconds */
#define EXTENSION_LEAST 16u
#define DIGEST_BYTES 16u

/* Stamps -------------------------------------------------------------------------------------- */

/* The fraction is rounded up, so that cutting it off again gives the same nanosecond. */
uint64_t mare_ntp_stamp(int64_t utc_ns)
{
    int64_t seconds = utc_ns / MARE_TIME_SECOND, rest = utc_ns % MARE_TIME_SECOND;
    if (rest < 0) {
        rest += MARE_TIME_SECOND;
        seconds--;
    }
    uint64_t fraction = (((uint64_t)rest << 32) + MARE__PPB - 1) / MARE__PPB;
    return (((uint64_t)seconds + UNIX_EPOCH) << 32) + fraction;
}

int64_t mare_ntp_unstamp(uint64_t stamp, int64_t near_ns)
{
    int64_t near_s = near_ns / MARE_TIME_SECOND - (near_ns % MARE_TIME_SECOND < 0);
    /* The distance in seconds, modulo an era, as a signed number: at most 68 years. */
    int64_t apart = (int32_t)(uint32_t)((stamp >> 32) - UNIX_EPOCH - (uint64_t)near_s);
    int64_t fraction = (int64_t)((stamp & 0xffffffff) * MARE__PPB >> 32);
    return (near_s + apart) * MARE_TIME_SECOND + fraction;
}

uint32_t mare_ntp_short(uint64_t span_ns)
{
    uint64_t seconds = span_ns / MARE__PPB;
    if (seconds > 0xffff)
        return UINT32_MAX;
    uint64_t fraction = ((span_ns % MARE__PPB << 16) + MARE__PPB - 1) / MARE__PPB;
    uint64_t all = (seconds << 16) + fraction;
    return all > UINT32_MAX ? UINT32_MAX : (uint32_t)all;
}

uint64_t mare_ntp_unshort(uint32_t span)
{
    return (span >> 16) * MARE__PPB + (((span & 0xffff) * MARE__PPB + 0xffff) >> 16);
}

/* Bytes --------------------------------------------------------------------------------------- */

static void put(uint8_t *out, uint64_t value, unsigned bytes)
{
    while (bytes--) {
        out[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

static uint64_t get(const uint8_t *in, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | in[i];
    return value;
}

uint32_t mare_ntp_encode(const mare_ntp_packet *packet, const mare_ntp_key *key,
                         uint8_t out[MARE_NTP_PACKET_BYTES])
{
    out[0] = (uint8_t)(packet->leap << 6 | (packet->version & 7) << 3 | (packet->mode & 7));
    out[1] = packet->stratum;
    out[2] = (uint8_t)packet->poll;
    out[3] = (uint8_t)packet->precision;
    put(out + 4, packet->root_delay, 4);
    put(out + 8, packet->root_dispersion, 4);
    put(out + 12, packet->reference_id, 4);
    put(out + 16, packet->reference, 8);
    put(out + 24, packet->origin, 8);
    put(out + 32, packet->receive, 8);
    put(out + 40, packet->transmit, 8);
    if (!key)
        return MARE_NTP_HEADER_BYTES;
    put(out + 48, key->id, 4);
    mare_ntp_cmac(key->secret, out, MARE_NTP_HEADER_BYTES, out + 52);
    return MARE_NTP_PACKET_BYTES;
}

static int is_mac(uint32_t left)
{
    return left == 0 || left == 4 || left == 20 || left == 24;
}

/* Skips extension fields. Returns where the MAC begins, which may be the end; 0 when what is there
 * is neither. */
static uint32_t find_mac(const uint8_t *bytes, uint32_t length)
{
    uint32_t at = MARE_NTP_HEADER_BYTES;
    while (!is_mac(length - at)) {
        if (length - at < EXTENSION_LEAST)
            return 0;
        uint32_t field = (uint32_t)get(bytes + at + 2, 2);
        if (field < EXTENSION_LEAST || field % 4 || field > length - at)
            return 0;
        at += field;
    }
    return at;
}

int mare_ntp_decode(const uint8_t *bytes, uint32_t length, mare_ntp_packet *packet)
{
    memset(packet, 0, sizeof *packet);
    if (length < MARE_NTP_HEADER_BYTES)
        return 0;
    packet->mac_at = find_mac(bytes, length);
    if (packet->mac_at == 0)
        return 0;
    packet->mac_bytes = length - packet->mac_at;
    if (packet->mac_bytes)
        packet->key_id = (uint32_t)get(bytes + packet->mac_at, 4);
    packet->leap = bytes[0] >> 6;
    packet->version = bytes[0] >> 3 & 7;
    packet->mode = bytes[0] & 7;
    packet->stratum = bytes[1];
    packet->poll = (int8_t)bytes[2];
    packet->precision = (int8_t)bytes[3];
    packet->root_delay = (uint32_t)get(bytes + 4, 4);
    packet->root_dispersion = (uint32_t)get(bytes + 8, 4);
    packet->reference_id = (uint32_t)get(bytes + 12, 4);
    packet->reference = get(bytes + 16, 8);
    packet->origin = get(bytes + 24, 8);
    packet->receive = get(bytes + 32, 8);
    packet->transmit = get(bytes + 40, 8);
    return 1;
}

int mare_ntp_authentic(const uint8_t *bytes, const mare_ntp_packet *packet, const mare_ntp_key *key)
{
    uint8_t mac[DIGEST_BYTES], different = 0;
    if (packet->mac_bytes != 4 + DIGEST_BYTES || packet->key_id != key->id || key->id == 0)
        return 0;
    mare_ntp_cmac(key->secret, bytes, packet->mac_at, mac);
    for (unsigned i = 0; i < DIGEST_BYTES; i++)
        different |= (uint8_t)(mac[i] ^ bytes[packet->mac_at + 4 + i]);
    return different == 0;
}
