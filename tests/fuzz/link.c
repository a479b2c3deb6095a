// SPDX-License-Identifier: MIT
// A link whose peer is an enemy. The first byte says how far the handshake is when the enemy comes:
//
//   bit 0   the machine has dialled; else it was called
//   bit 1   the handshake was made, by an honest peer whose place the enemy takes
//
// The others are what the enemy says and what the host does: bytes of any kind, cut anywhere;
// frames that are well formed and lie; time that passes; flows that are opened, used and closed;
// transports that break. The machine must not crash, must keep to the memory that it has declared,
// tell nothing after the end, deliver nothing beyond what was granted, and release what it was
// lent. An enemy that begins as a guest goes on with the reader of MessagePack-RPC.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/link_inner.h"
#include "wire/pack.h"
#include "wire/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FLOWS = 4, STEPS_MOST = 400, WINDOW_BYTES = 9000, WINDOW_MESSAGES = 5, RESERVE = 15 };

struct input {
    const uint8_t *at, *end;
};

struct game {
    struct mare__link_settings settings;
    struct mare__link *link;
    struct input in;
    uint64_t now_us;
    uint64_t messages[FLOWS], bytes[FLOWS]; // delivered and not consumed
    int lent;
    bool over, guest;
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static uint8_t next_byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

// Small numbers, numbers around the limits, and any.
static uint64_t next_number(struct input *in)
{
    uint8_t first = next_byte(in);
    uint64_t number = 0;
    if (first < 0xf0)
        return first % 16;
    for (int i = 0; i < first % 8 + 1; i++)
        number = number << 8 | next_byte(in);
    return first & 8 ? ~number : number;
}

static void release(void *context, void *owner)
{
    struct game *game = context;
    game->lent--;
    free(owner);
}

static size_t beat(void *context, const struct mare__link *link, uint8_t *out)
{
    static const uint8_t news[] = {1, 2, 3, 4};
    (void)context, (void)link;
    memcpy(out, news, sizeof news);
    return sizeof news;
}

static void set_up(struct game *game, const char *name)
{
    struct mare__link_settings *settings = &game->settings;
    mare__link_settings_init(settings);
    settings->self.name = mare__span_of(name);
    settings->self.incarnation = 1;
    settings->self.frame = 6000; // some frames are larger than 4 KiB, and read in another way
    settings->self.flows = 8;
    settings->self.control = (struct mare__link_window){WINDOW_MESSAGES, WINDOW_BYTES};
    settings->receive = (uint64_t)FLOWS * WINDOW_BYTES;
    settings->send = 20000;
    settings->unacknowledged = 64;
    settings->reserve = RESERVE;
    settings->secret = 7;
    settings->context = game;
    settings->release = release;
    settings->beat = beat;
}

// ---- What the machine tells ---------------------------------------------------------------------

static void take_message(struct game *game, const struct mare__link_event *event)
{
    must(event->flow < FLOWS && event->size <= WINDOW_BYTES / 2);
    game->messages[event->flow]++;
    game->bytes[event->flow] += event->size;
    must(game->messages[event->flow] <= WINDOW_MESSAGES);
    must(game->bytes[event->flow] <= WINDOW_BYTES);
    for (size_t i = 0; i < event->size; i++) { // every byte can be read
        volatile uint8_t byte = event->data[i];
        (void)byte;
    }
    if (event->block) { // and what is before it is ours
        must(event->data == (uint8_t *)event->block + RESERVE);
        memset(event->block, 0, RESERVE);
    }
    mare__free(event->block);
}

// All that is left of the input, in pieces, after what has made it a guest.
static void be_a_guest(struct game *game, const uint8_t *bytes, size_t size)
{
    struct mare__rpc_reader reader;
    enum mare__rpc_event event;
    mare__rpc_reader_init(&reader);
    reader.limit = 300;
    do {
        size_t used;
        while ((event = mare__rpc_read(&reader, bytes, size, &used)) == MARE__RPC_REQUEST ||
               event == MARE__RPC_NOTIFICATION) {
            must(used <= size && reader.method.size + reader.params.size < reader.limit);
            bytes += used;
            size -= used;
        }
        must(reader.text.size <= reader.limit);
        size_t left = (size_t)(game->in.end - game->in.at);
        size = next_byte(&game->in) % 64;
        left -= left > 0;
        size = size < left ? size : left;
        bytes = game->in.at;
        game->in.at += size;
    } while (event == MARE__RPC_MORE && game->in.at < game->in.end);
    mare__rpc_reader_fini(&reader);
}

static void drain(struct game *game)
{
    static const uint8_t session[MARE__LINK_SESSION] = "a secret of two";
    struct mare__link_event event;
    struct mare__link_view view;
    while (mare__link_next(game->link, &event)) {
        must(!game->over && !game->guest);
        game->over = event.kind == MARE__LINK_OVER;
        game->guest = event.kind == MARE__LINK_GUEST;
        if (event.kind == MARE__LINK_HELLO &&
            mare__link_judge(&game->settings, mare__link_peer(game->link), NULL) == 0)
            mare__link_accept(game->link, session, 1);
        else if (event.kind == MARE__LINK_HELLO || event.kind == MARE__LINK_RESUME)
            mare__link_refuse(game->link, MARE__LINK_CODE_DENIED, mare__span_of("no"));
        else if (event.kind == MARE__LINK_MESSAGE)
            take_message(game, &event);
        else if (event.kind == MARE__LINK_GUEST)
            be_a_guest(game, event.data, event.size);
    }
    mare__link_look(game->link, &view);
    must(view.memory <= mare__link_memory_most(&game->settings));
    must(view.held <= game->settings.send);
    must(!game->over || view.phase == MARE__LINK_DONE);
}

// A copy of exactly this size, so that AddressSanitizer sees the first byte read too far.
static void give(struct game *game, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    void *at;
    must(copy != NULL);
    if (size)
        memcpy(copy, bytes, size);
    size_t target = mare__link_target(game->link, &at);
    size_t filled = target < size ? target : size;
    if (filled) {
        memcpy(at, copy, filled);
        mare__link_filled(game->link, filled);
        if (filled < target || size % 2) // else together with what follows
            drain(game);
    }
    mare__link_input(game->link, copy + filled, size - filled);
    drain(game);
    free(copy);
}

// ---- What the enemy says ------------------------------------------------------------------------

static void say_bytes(struct game *game)
{
    size_t left = (size_t)(game->in.end - game->in.at), size = next_byte(&game->in);
    left -= left > 0;
    size = size < left ? size : left;
    give(game, game->in.at, size);
    game->in.at += size;
}

// A frame of a kind that exists, with numbers and a payload of any size.
static void say_frame(struct game *game)
{
    static const uint8_t kinds[] = {
        MARE__FRAME_DATA,
        MARE__FRAME_FIRST,
        MARE__FRAME_REST,
        MARE__FRAME_OPEN,
        MARE__FRAME_CREDIT,
        MARE__FRAME_CLOSE,
        MARE__FRAME_END,
        MARE__FRAME_BYE,
        MARE__FRAME_ACK,
        MARE__FRAME_PING,
        MARE__FRAME_PONG,
        MARE__FRAME_QUIT,
        MARE__FRAME_HELLO,
        MARE__FRAME_RESUMED,
        0x40,
        0x61,
    };
    static uint8_t frame[8192];
    struct mare__link_writer writer;
    uint8_t shape = next_byte(&game->in), kind = kinds[shape % sizeof kinds];
    unsigned numbers = 1 + shape / 16 % 4;
    bool payload = kind <= MARE__FRAME_REST && kind >= MARE__FRAME_DATA;
    bool text = payload || kind == MARE__FRAME_PING || kind == MARE__FRAME_PONG;
    if (payload)
        numbers = kind == MARE__FRAME_FIRST ? 2 : 1;
    mare__link_put_begin(&writer, frame, kind, 1 + numbers + text);
    for (unsigned i = 0; i < numbers; i++)
        mare__link_put_number(&writer, next_number(&game->in));
    if (text) {
        uint32_t size = (uint32_t)next_byte(&game->in) * (shape & 0x80 ? 27 : 1);
        writer.at += mare__pack_binary_header(writer.at, size);
        memset(writer.at, 'x', size);
        writer.at += size;
    }
    size_t size = mare__link_put_end(&writer, 0), cut = next_byte(&game->in);
    cut = cut < size ? cut : size;
    give(game, frame, cut);
    give(game, frame + cut, size - cut);
}

// ---- What the host does -------------------------------------------------------------------------

static void send_message(struct game *game, uint64_t flow)
{
    size_t size = (size_t)next_byte(&game->in) * 40;
    uint8_t *block = calloc(1, size + 1);
    must(block != NULL);
    struct mare__link_part parts[] = {{"head", 4, NULL}, {block, size, block}};
    game->lent++;
    if (mare__link_send(game->link, flow, parts, 2))
        release(game, block); // it is still ours
}

static void open_flow(struct game *game, uint64_t flow, bool once)
{
    struct mare__link_window window = {WINDOW_MESSAGES, WINDOW_BYTES};
    if (mare__link_open(game->link, flow, window, once, NULL) == MARE_OK)
        game->messages[flow] = game->bytes[flow] = 0;
}

static void consume(struct game *game, uint64_t flow)
{
    mare__link_consumed(game->link, flow, (uint32_t)game->messages[flow], game->bytes[flow]);
    game->messages[flow] = game->bytes[flow] = 0;
}

static void write_out(struct game *game)
{
    struct iovec pieces[4];
    int count;
    while ((count = mare__link_output(game->link, pieces, 4)) > 0) {
        size_t size = 0;
        for (int i = 0; i < count; i++)
            size += pieces[i].iov_len;
        mare__link_sent(game->link, size);
    }
}

static void pass_time(struct game *game)
{
    game->now_us += 1000 * (uint64_t)next_byte(&game->in);
    mare__link_tick(game->link, game->now_us);
}

static void break_transport(struct game *game)
{
    mare__link_broken(game->link);
    drain(game);
    mare__link_redial(game->link);
}

static void step(struct game *game)
{
    uint8_t what = next_byte(&game->in);
    uint64_t flow = what / 16 % FLOWS;
    switch (what % 16) {
    case 0:
    case 1:
        say_bytes(game);
        break;
    case 8:
        open_flow(game, flow, what & 0x80);
        break;
    case 9:
        consume(game, flow);
        break;
    case 10:
        send_message(game, flow);
        break;
    case 11:
        if (what & 0x80)
            mare__link_end(game->link, flow);
        else
            mare__link_close(game->link, flow);
        break;
    case 12:
        pass_time(game);
        break;
    case 13:
        write_out(game);
        break;
    case 14:
        if (what == 0xfe)
            mare__link_bye(game->link, MARE__LINK_CODE_BYE, mare__span_of("enough"));
        break;
    case 15:
        if (what & 0x80)
            break_transport(game);
        break;
    default:
        say_frame(game);
    }
    drain(game);
}

// ---- The game -----------------------------------------------------------------------------------

static bool carry(struct mare__link *from, struct game *to)
{
    struct iovec pieces[4];
    int count = mare__link_output(from, pieces, 4);
    for (int i = 0; i < count; i++)
        give(to, pieces[i].iov_base, pieces[i].iov_len);
    for (int i = 0; i < count; i++)
        mare__link_sent(from, pieces[i].iov_len);
    return count > 0;
}

// An honest peer makes the handshake, and is heard of no more.
static void shake_hands(struct game *game, enum mare__link_role role)
{
    struct game honest = {.now_us = game->now_us};
    set_up(&honest, "honest");
    honest.link = mare__link_create(&honest.settings, 1 - role, 1, honest.now_us);
    must(honest.link != NULL);
    while (carry(game->link, &honest) || carry(honest.link, game))
        continue;
    must(game->link->phase == MARE__LINK_LIVE);
    mare__link_destroy(honest.link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct game game = {.in = {data, data + size}, .now_us = 1000000};
    uint8_t first = next_byte(&game.in);
    enum mare__link_role role = first & 1 ? MARE__LINK_DIALS : MARE__LINK_ACCEPTS;
    set_up(&game, "fuzzed");
    game.link = mare__link_create(&game.settings, role, 1, game.now_us);
    must(game.link != NULL);
    if (first & 2)
        shake_hands(&game, role);
    for (int i = 0; i < STEPS_MOST && game.in.at < game.in.end && !game.guest; i++)
        step(&game);
    mare__link_destroy(game.link);
    must(game.lent == 0);
    return 0;
}
