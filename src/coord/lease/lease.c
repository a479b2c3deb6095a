/* SPDX-License-Identifier: MIT */

/* The lease under which a member acts for its group, and the failure detector that belongs to it.
 *
 *     asking ── promises of more than half of the founders ──▶ holding ── they run out ──▶ asking
 *       │                                                                    (the next epoch)
 *       └── RENEW to the voters, each beat; ANSWER: a promise, and who has been silent
 *
 * Timeouts say DOWN of the slow. Many algorithms let two in then. So a member acts only while it
 * holds a lease, and its lease is over before anybody may count it as down.
 *
 * A promise. A member that answers a RENEW says: for `lease_us` from now, by my clock, I count you
 * as alive. The asker holds the lease when more than half of the founders, itself among them, have
 * promised. It counts from when it sent what they answered, by its own clock, and shortens it by
 * the drift of both clocks: so its lease is over when their promises still run. It asks each beat,
 * long before.
 *
 * An epoch is one unbroken lease. A member that has lost its lease begins another epoch, with the
 * next number. So does one that got no lease in the time of a lease: otherwise it could come to
 * hold an epoch that the others have given up. Numbers go on after a crash (incarnation, count).
 * What a member sends under its lease carries the epoch: what is older than the receiver knows of
 * is not listened to, and one that is newer says that all older ones are over.
 *
 * Down. A member that has heard no RENEW of another for `lease_us` has no promise to it that runs.
 * It says so in its ANSWERs, and does not promise anything to that epoch for `lease_us` from then
 * on: so the asker may believe it for a lease, counted from when it asked. When as many as any
 * majority lacks say so at one moment, the member holds no lease then. DOWN is said of that epoch,
 * for good.
 *
 * A lease begins with all being taken for alive, and DOWN said of those that are silent at that
 * moment: what was known before may be old, and two that each had the other for dead would begin
 * without each other.
 *
 * A member that starts without being a founder at the beginning may have promised, or said of
 * somebody that it is silent: for `lease_us` it does neither. Nothing has to be remembered, but
 * that the incarnation grows (and if it did not, the others' lists say which epoch they know of).
 * It does not know either which epochs it has dealt with, so that a DOWN could be of an older one.
 * Therefore it does not listen to who is called silent in answers to what it asked in that time.
 * What it asks later is about a time when none of its own promises ran: who is called silent then,
 * by so many, held no lease of any epoch at a moment since the start (mare__lease_was_silent).
 *
 * Founding. A founder that comes late, or is not heard at first, may have been counted as down: the
 * others have gone on without it, and it must not begin as if the group did. So an answer also says
 * whether its sender has ever called the asker silent. If one of them has, the first lease is that
 * of one that comes back.
 *
 * Sources: Gray and Cheriton, "Leases" (1989): the term by the holder's clock, shortened; a server
 * that restarts waits for the longest term. Burrows, "The Chubby lock service" (2006).
 *
 * Members without a vote. A member that joins later can hold a lease, but has no vote: the voters
 * are the founders. It promises nothing, so nobody asks it; it hears of the others by answers. Who
 * is silent is in every answer. A RENEW of one without a vote lists whom it takes for down, and an
 * answer to that also says which of those hold a lease. It says no more than their own RENEWs have
 * said, only later. So a beat of n members with v voters costs 2v(n-1) messages.
 *
 * Assumes: clocks run right within `drift_ppm`; more than half of the founders reach each other, or
 * nobody holds a lease. Any delay, order, loss, repeated delivery, pauses, crashes with or without
 * memory, of all. */

#include "coord/lease/lease.h"

#include "coord/bytes.h"
#include "coord/machine.h"
#include "coord/table.h"

#include <string.h>

enum { RENEW, ANSWER };                             /* messages */
enum { EPOCH, SENT, HELD, GIVEN = HELD };           /* fields */
enum { NOTHING, PROMISE, FRESH };                   /* what is given */
enum { ENTRY_BYTES = 16, HURRY = 8, MESSAGES = 3 }; /* of a list; beats in one, after a silence */

#define EPOCH_LIMIT (UINT64_C(1) << 63)
#define UP                                                                                         \
    (UINT64_C(1) << 32) /* with a member's number in a list: it holds a lease, says a voter */

typedef struct lease {
    uint64_t epoch;    /* of my lease, or of the one that I ask for */
    uint64_t born_us;  /* when I began to ask for it */
    uint64_t until_us; /* it is mine until here */
    uint64_t quiet_us; /* before this I promise nothing */
    uint32_t held;
    uint32_t late;      /* somebody may have gone on without me before my first lease */
    mare__set down;     /* of whom I have said DOWN */
    mare__set led;      /* whose known epoch is known to have been held */
    mare__set called;   /* whom I have ever called silent */
    mare__set judged;   /* who has held no lease at a moment since this life began */
    mare__set *silent;  /* by voter: whom it has called silent … */
    uint64_t *told_us;  /* … in an answer that holds until here */
    uint64_t *promised; /* by voter: when I sent the last RENEW that it has promised for */
    uint64_t *heard_us; /* by member: its last RENEW; my promises run for a lease from here */
    uint64_t *shut_us;  /* by member: I called its epoch silent, and promise nothing before this */
    uint64_t *known;    /* by member: its latest epoch */
    uint64_t *over;     /* by member: its epochs up to here are over */
} lease;

static uint64_t term_us(const mare_coord *m)
{
    return (uint64_t)mare__param(m, MARE__LEASE_US);
}

/* How long a holder counts on a promise by its own clock, which may be slow: less than a term by a
 * clock that is fast. */
static uint64_t short_term_us(const mare_coord *m)
{
    uint64_t drift_us = term_us(m) * 2 * (uint64_t)mare__param(m, MARE__LEASE_DRIFT_PPM) / 1000000;
    return drift_us + 2 < term_us(m) ? term_us(m) - drift_us - 2 : 0;
}

static int is_voter(const mare_coord *m, uint32_t member)
{
    return member < m->setup.members;
}

/* Whether I have heard nothing of a member for a term: then none of my promises to it runs. */
static int finds_silent(const mare_coord *m, uint32_t member)
{
    const lease *l = m->state;
    return member != m->setup.self && mare__set_has(m->members, member) &&
           m->now_us >= l->heard_us[member] + term_us(m);
}

/* Down and up -------------------------------------------------------------------------------- */

static void say_down(mare_coord *m, uint32_t member, uint64_t epoch, mare_coord_effects *fx)
{
    lease *l = m->state;
    l->over[member] = epoch;
    if (mare__set_has(l->down, member))
        return;
    mare__set_add(l->down, member);
    mare__peer_news(fx, MARE_COORD_DOWN, member, epoch);
}

/* Somebody has this epoch, so the older ones are over. If it is held as a lease, the member is
 * up. */
static void learn(mare_coord *m, uint32_t member, uint64_t epoch, int held, mare_coord_effects *fx)
{
    lease *l = m->state;
    if (epoch > l->known[member]) {
        if (mare__set_has(l->led, member))
            say_down(m, member, l->known[member], fx);
        mare__set_remove(l->led, member);
        l->known[member] = epoch;
        l->shut_us[member] = 0;
        for (uint32_t i = 0; i < m->setup.members; i++)
            mare__set_remove(l->silent[i], member);
    }
    if (!held || epoch < l->known[member] || epoch <= l->over[member])
        return;
    mare__set_add(l->led, member);
    if (mare__set_has(l->down, member)) {
        mare__set_remove(l->down, member);
        mare__peer_news(fx, MARE_COORD_UP, member, epoch);
    }
}

/* If so many voters have no promise to a member that the rest is no majority, the member holds no
 * lease. */
static void judge(mare_coord *m, uint32_t member, mare_coord_effects *fx)
{
    lease *l = m->state;
    uint32_t votes = is_voter(m, m->setup.self) && finds_silent(m, member);
    for (uint32_t i = 0; i < m->setup.members; i++)
        votes += i != member && l->told_us[i] > m->now_us && mare__set_has(l->silent[i], member);
    if (member == m->setup.self || votes < m->setup.members - m->setup.members / 2)
        return;
    int known = mare__set_has(l->judged, member) || !mare__set_has(l->down, member);
    mare__set_add(l->called, member);
    mare__set_add(l->judged, member);
    say_down(m, member, l->known[member], fx);
    if (!known) /* its end was told as that of an epoch; now it is known that it was a lease */
        mare__peer_news(fx, MARE_COORD_DOWN, member, l->known[member]);
}

static void judge_all(mare_coord *m, mare_coord_effects *fx)
{
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity))
        judge(m, i, fx);
}

/* Asking and answering ----------------------------------------------------------------------- */

static void add_entry(mare_coord_message *msg, uint8_t *list, uint64_t who, uint64_t epoch)
{
    mare__put_numbers(list + msg->tail_length, (uint64_t[]){who, epoch}, 2);
    msg->tail_length += ENTRY_BYTES;
}

/* Adds those whom the asker takes for down, and of whom I know better. */
static void add_up(const mare_coord *m, const mare_coord_message *asked, mare_coord_message *msg,
                   uint8_t *list)
{
    const lease *l = m->state;
    for (uint32_t at = 0; at < asked->tail_length; at += ENTRY_BYTES) {
        uint32_t i = (uint32_t)mare__get_number(asked->tail + at, 8);
        int held = mare__set_has(l->led, i) && l->known[i] > l->over[i];
        if (held && !finds_silent(m, i) && msg->tail_length / ENTRY_BYTES < m->setup.capacity)
            add_entry(msg, list, i | UP, l->known[i]);
    }
}

/* A message with a list of members and their epochs: who is silent; in the RENEW of one that has no
 * vote, who is down. In an ANSWER there is more for those without a vote. */
static void say(mare_coord *m, uint32_t to, uint32_t kind, const uint64_t *field,
                const mare_coord_message *asked, mare_coord_effects *fx)
{
    lease *l = m->state;
    uint8_t *list = mare__scratch(fx, (uint32_t)ENTRY_BYTES * m->setup.capacity);
    mare_coord_message msg = {.kind = kind, .field = {field[0], field[1], field[2]}, .tail = list};
    int votes = is_voter(m, m->setup.self);
    for (uint32_t i = 0; list && i < m->setup.capacity; i++) {
        if (votes ? !finds_silent(m, i) : !mare__set_has(l->down, i))
            continue;
        add_entry(&msg, list, i, l->known[i]);
        if (kind == ANSWER) {
            l->shut_us[i] = m->now_us + term_us(m);
            mare__set_add(l->called, i);
        }
    }
    if (list && asked && !is_voter(m, to))
        add_up(m, asked, &msg, list);
    mare__send(m, fx, to, &msg);
}

/* Whether there is a member without a vote. */
static int has_others(const mare_coord *m)
{
    return mare__set_next(m->members, m->setup.members, m->setup.capacity) != MARE_COORD_NOBODY;
}

static void ask(mare_coord *m, mare_coord_effects *fx)
{
    lease *l = m->state;
    uint64_t field[] = {l->epoch, m->now_us, l->held};
    if (!has_others(m)) {
        say(m, MARE__EVERYBODY, RENEW, field, NULL, fx);
        return;
    }
    for (uint32_t i = 0; i < m->setup.members; i++) {
        if (i != m->setup.self && mare__set_has(m->members, i))
            say(m, i, RENEW, field, NULL, fx);
    }
}

static void begin_epoch(mare_coord *m, uint64_t epoch)
{
    lease *l = m->state;
    l->epoch = epoch;
    l->born_us = m->now_us;
    l->held = 0;
    memset(l->promised, 0, m->setup.members * sizeof *l->promised);
}

/* Ends the lease when its time is over, whatever else this step is about. */
static void pass_time(mare_coord *m, mare_coord_effects *fx)
{
    lease *l = m->state;
    if (l->held && m->now_us >= l->until_us) {
        begin_epoch(m, l->epoch + 1);
        mare__peer_news(fx, MARE_COORD_UNLEASED, m->setup.self, 0);
    } else if (!l->held && m->now_us >= l->born_us + short_term_us(m)) {
        begin_epoch(m, l->epoch + 1);
    }
}

/* The latest time such that more than half have promised for a RENEW sent then or later. There are
 * few candidates, and each is counted. */
static uint64_t granted_us(const mare_coord *m)
{
    const lease *l = m->state;
    uint64_t best = 0;
    for (uint32_t i = 0; i < m->setup.members; i++) {
        uint32_t votes = 0;
        for (uint32_t j = 0; j < m->setup.members; j++)
            votes += l->promised[j] >= l->promised[i];
        if (votes > m->setup.members / 2 && l->promised[i] > best)
            best = l->promised[i];
    }
    return best;
}

static void count(mare_coord *m, mare_coord_effects *fx)
{
    lease *l = m->state;
    uint64_t asked_us = granted_us(m), until_us = asked_us + short_term_us(m);
    if (asked_us == 0 || until_us <= m->now_us || (l->held && until_us <= l->until_us))
        return;
    l->until_us = until_us;
    mare__set_timer(fx, MARE__LEASE_END, until_us - m->now_us);
    if (l->held)
        return;
    l->held = 1;
    mare__set_clear(l->down, m->setup.capacity);
    mare__peer_news(fx, MARE_COORD_LEASED, m->setup.self, l->epoch);
    judge_all(m, fx);
    ask(m, fx); /* so that the others hear at once that I am up */
}

/* When to ask next: each beat; when the first promise runs out; and soon again after that, for the
 * others' promises run out at about the same time. */
static uint64_t next_us(const mare_coord *m)
{
    const lease *l = m->state;
    uint64_t beat_us = (uint64_t)mare__param(m, MARE__LEASE_BEAT_US), wait_us = beat_us;
    if (!is_voter(m, m->setup.self))
        return beat_us; /* it gives no promises */
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        uint64_t end_us = l->heard_us[i] + term_us(m), left_us = beat_us;
        if (i == m->setup.self)
            continue;
        if (end_us > m->now_us)
            left_us = end_us - m->now_us;
        else if (!mare__set_has(l->down, i) && m->now_us - end_us < beat_us)
            left_us = beat_us / HURRY + 1;
        wait_us = left_us < wait_us ? left_us : wait_us;
    }
    return wait_us;
}

static void beat(mare_coord *m, mare_coord_effects *fx)
{
    lease *l = m->state;
    if (is_voter(m, m->setup.self))
        l->promised[m->setup.self] = m->now_us;
    judge_all(m, fx);
    ask(m, fx);
    count(m, fx);
    mare__set_timer(fx, MARE__LEASE_BEAT, next_us(m));
}

static void on_renew(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                     mare_coord_effects *fx)
{
    lease *l = m->state;
    learn(m, from, msg->field[EPOCH], msg->field[HELD] != 0, fx);
    if (msg->field[EPOCH] < l->known[from])
        return; /* an old copy, or one whose incarnation did not grow: it will hear of it */
    l->heard_us[from] = m->now_us;
    uint64_t given = NOTHING;
    if (m->now_us >= l->quiet_us && m->now_us >= l->shut_us[from])
        given = m->setup.founds && !mare__set_has(l->called, from) ? FRESH : PROMISE;
    if (is_voter(m, m->setup.self))
        say(m, from, ANSWER, (uint64_t[]){msg->field[EPOCH], msg->field[SENT], given}, msg, fx);
}

static void on_answer(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                      mare_coord_effects *fx)
{
    lease *l = m->state;
    uint64_t sent_us = msg->field[SENT];
    if (!is_voter(m, from))
        return;
    l->late |= msg->field[GIVEN] == PROMISE;
    if (msg->field[GIVEN] != NOTHING && msg->field[EPOCH] == l->epoch &&
        sent_us > l->promised[from]) {
        l->promised[from] = sent_us;
        count(m, fx);
    }
    if (sent_us + short_term_us(m) < l->told_us[from] || sent_us < l->quiet_us)
        return; /* it has answered a later RENEW, or one that I might misunderstand */
    l->told_us[from] = sent_us + short_term_us(m);
    mare__set_clear(l->silent[from], m->setup.capacity);
    for (uint32_t at = 0; at < msg->tail_length; at += ENTRY_BYTES) {
        uint64_t who = mare__get_number(msg->tail + at, 8);
        uint32_t member = (uint32_t)who;
        if (!(who & UP) && mare__get_number(msg->tail + at + 8, 8) == l->known[member])
            mare__set_add(l->silent[from], member);
    }
    judge_all(m, fx);
}

/* Epochs spread by the lists, so that all speak of the same one. A member that finds itself in one
 * has to ask under a number that is new to them. */
static void learn_list(mare_coord *m, const mare_coord_message *msg, mare_coord_effects *fx)
{
    lease *l = m->state;
    for (uint32_t at = 0; at < msg->tail_length; at += ENTRY_BYTES) {
        uint64_t who = mare__get_number(msg->tail + at, 8);
        uint64_t epoch = mare__get_number(msg->tail + at + 8, 8);
        if ((uint32_t)who != m->setup.self)
            learn(m, (uint32_t)who, epoch, (who & UP) != 0, fx);
        else if (!l->held && epoch >= l->epoch)
            begin_epoch(m, epoch + 1);
    }
}

static int is_sound(const mare_coord *m, const mare_coord_message *msg)
{
    if (msg->field[EPOCH] == 0 || msg->field[EPOCH] >= EPOCH_LIMIT ||
        msg->tail_length % ENTRY_BYTES || (msg->kind == ANSWER && msg->field[SENT] > m->now_us))
        return 0;
    for (uint32_t at = 0; at < msg->tail_length; at += ENTRY_BYTES) {
        uint64_t who = mare__get_number(msg->tail + at, 8);
        if ((who & ~UP) >= m->setup.capacity || (who & UP && msg->kind == RENEW) ||
            mare__get_number(msg->tail + at + 8, 8) >= EPOCH_LIMIT)
            return 0;
    }
    return msg->tail_length / ENTRY_BYTES <= m->setup.capacity;
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    if (!is_sound(m, msg))
        return MARE_COORD_MALFORMED;
    pass_time(m, fx);
    learn_list(m, msg, fx);
    if (msg->kind == RENEW)
        on_renew(m, from, msg, fx);
    else
        on_answer(m, from, msg, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    pass_time(m, fx);
    if (which == MARE__LEASE_BEAT)
        beat(m, fx);
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    (void)m, (void)event, (void)fx;
    return MARE_COORD_UNKNOWN;
}

/* A newcomer has the time of a lease to be heard. A member that leaves is no member any more. */
static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    lease *l = m->state;
    (void)fx;
    if (event->kind == MARE_COORD_JOIN) {
        l->heard_us[event->peer] = m->now_us;
        mare__set_remove(l->down, event->peer);
    }
}

/* All that was promised in an earlier life may still run, and all are taken to be alive. */
static void start(mare_coord *m, mare_coord_effects *fx)
{
    lease *l = m->state;
    l->quiet_us = mare__founds(m) ? 0 : m->now_us + term_us(m);
    if (l->held)
        mare__peer_news(fx, MARE_COORD_UNLEASED, m->setup.self, 0);
    begin_epoch(m, l->epoch + 1);
    mare__set_clear(l->down, m->setup.capacity);
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        l->heard_us[i] = m->now_us;
        l->told_us[i] = 0;
    }
    beat(m, fx);
}

/* For what acts under it --------------------------------------------------------------------- */

uint64_t mare__lease_epoch(const mare_coord *m, uint64_t *until_us)
{
    const lease *l = m->state;
    if (until_us)
        *until_us = l->until_us;
    return l->held ? l->epoch : 0;
}

int mare__lease_is_down(const mare_coord *m, uint32_t member)
{
    const lease *l = m->state;
    return mare__set_has(l->down, member);
}

int mare__lease_was_silent(const mare_coord *m, uint32_t member)
{
    const lease *l = m->state;
    return mare__set_has(l->judged, member);
}

int mare__lease_is_late(const mare_coord *m)
{
    const lease *l = m->state;
    return l->late != 0;
}

int mare__lease_hear(mare_coord *m, uint32_t member, uint64_t epoch, mare_coord_effects *fx)
{
    const lease *l = m->state;
    fx->count = fx->bytes_count = fx->lost = 0;
    if (member >= m->setup.capacity || !mare__set_has(m->members, member) || epoch == 0 ||
        epoch >= EPOCH_LIMIT || epoch <= l->over[member] || epoch < l->known[member])
        return 0;
    learn(m, member, epoch, 1, fx);
    return 1;
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(lease *l, mare__block *block, const mare_coord_setup *setup)
{
    l->down = mare__carve_set(block, setup->capacity);
    l->led = mare__carve_set(block, setup->capacity);
    l->called = mare__carve_set(block, setup->capacity);
    l->judged = mare__carve_set(block, setup->capacity);
    l->silent = mare__carve_array(block, setup->members, sizeof *l->silent);
    for (uint32_t i = 0; i < setup->members; i++) {
        mare__set set = mare__carve_set(block, setup->capacity);
        if (l->silent)
            l->silent[i] = set;
    }
    l->told_us = mare__carve_array(block, setup->capacity, sizeof *l->told_us);
    l->promised = mare__carve_array(block, setup->members, sizeof *l->promised);
    l->heard_us = mare__carve_array(block, setup->capacity, sizeof *l->heard_us);
    l->shut_us = mare__carve_array(block, setup->capacity, sizeof *l->shut_us);
    l->known = mare__carve_array(block, setup->capacity, sizeof *l->known);
    l->over = mare__carve_array(block, setup->capacity, sizeof *l->over);
}

static size_t size(const mare_coord_setup *setup)
{
    lease counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    lease *l = m->state;
    lay_out(l, &(mare__block){m->state, sizeof *l}, &m->setup);
    l->epoch = m->setup.incarnation << 32;
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint64_t list = (uint64_t)ENTRY_BYTES * setup->capacity;
    uint64_t each = setup->capacity > setup->members ? 2 * (uint64_t)setup->members : 0;
    mare__declare(2 * (uint64_t)setup->capacity + 8 + each,
                  (MESSAGES + each) * (MARE__MESSAGE_BYTES(3) + list) + list, effects, bytes);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const lease *l = m->state;
    view->phase = l->held ? "leased" : "asking";
    view->epoch = l->epoch;
    view->until_us = l->held ? l->until_us : 0;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return 0; /* what it is for shows in what acts under it */
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE__SLOW | MARE__LOSSY | MARE__MORTAL | MARE_COORD_ALL_CRASH | MARE_COORD_SUSPECTS;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    return 2 * (uint64_t)setup->members * (setup->capacity - 1);
}

static const mare_coord_param params[] = {
    {"lease_us", "how long a promise lasts", 3000000, 100, INT64_C(1) << 40},
    {"beat_us", "how often it is asked for", 600000, 10, INT64_C(1) << 40},
    {"drift_ppm", "how wrong a clock may run", 1000, 0, 400000},
    {0},
};

static const mare_coord_form forms[] = {
    {"RENEW", {"epoch", "sent", "held"}, 1},
    {"ANSWER", {"epoch", "sent", "given"}, 1},
    {0},
};

const mare_coord_algorithm mare__lease = {
    .name = "lease",
    .title = "a lease that a majority renews, and who is down",
    .source = "Gray and Cheriton 1989; Burrows 2006",
    .assumes = "clocks run right within drift_ppm",
    .family = MARE_COORD_FAMILIES,
    .tag = MARE__TAG_LEASE,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "2v(n-1) a beat",
    .size = size,
    .room = room,
    .init = init,
    .start = start,
    .receive = receive,
    .timer = timer,
    .request = request,
    .peer = peer,
    .look = look,
};
