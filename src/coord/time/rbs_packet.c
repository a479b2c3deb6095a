/* SPDX-License-Identifier: MIT */

/* What travels for reference broadcasts, 48 bytes in network order:
 *
 *     "MRBS" 1 kind 0 0 | series (8) | number (8) | who (8) | when (8) | name (8, zeros after it)
 *
 * A beacon fills kind, series and number. A report says who heard it, and when by its own clock. */

#include <mare/coord_time.h>

#include <string.h>

static const uint8_t mark[5] = {'M', 'R', 'B', 'S', 1};

static void put(uint8_t *out, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        out[i] = (uint8_t)value;
}

static uint64_t get(const uint8_t *in)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | in[i];
    return value;
}

void mare_rbs_encode(const mare_rbs_packet *packet, uint8_t out[MARE_RBS_PACKET_BYTES])
{
    memset(out, 0, MARE_RBS_PACKET_BYTES);
    memcpy(out, mark, sizeof mark);
    out[5] = (uint8_t)packet->kind;
    put(out + 8, packet->series);
    put(out + 16, packet->number);
    put(out + 24, packet->who);
    put(out + 32, (uint64_t)packet->when_ns);
    for (int i = 0; i < MARE_RBS_NAME && packet->name[i]; i++)
        out[40 + i] = (uint8_t)packet->name[i];
}

/* A name is letters, digits, dots and dashes: it ends up on terminals and in JSON. */
static int is_name_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

int mare_rbs_decode(const uint8_t *bytes, uint32_t length, mare_rbs_packet *packet)
{
    memset(packet, 0, sizeof *packet);
    if (length != MARE_RBS_PACKET_BYTES || memcmp(bytes, mark, sizeof mark) != 0 ||
        (bytes[5] != MARE_RBS_BEACON && bytes[5] != MARE_RBS_REPORT))
        return 0;
    packet->kind = (mare_rbs_kind)bytes[5];
    packet->series = get(bytes + 8);
    packet->number = get(bytes + 16);
    packet->who = get(bytes + 24);
    packet->when_ns = (int64_t)get(bytes + 32);
    for (int i = 0; i < MARE_RBS_NAME && bytes[40 + i]; i++) {
        if (!is_name_letter(bytes[40 + i]))
            return 0;
        packet->name[i] = (char)bytes[40 + i];
    }
    return 1;
}
