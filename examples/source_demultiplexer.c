// SPDX-License-Identifier: MIT
// Demultiplexers of one's own, combined with Maré's. The first is an epoll with timers in it, as a
// library may bring: it has a descriptor, which the observer (libuv's epoll) watches as it watches
// a socket. The second has none, only a function that waits for a limited time: it is polled, in
// turn with others of its kind. A Lua process waits for both in one select.
#include <mare/events.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

// ---- One with a descriptor ----------------------------------------------------------------------

enum { CLOCKS = 2 };

struct clocks {
    int epoll, timers[CLOCKS];
};

// What is ready in the inner epoll becomes an event: which clock, and how often it has ticked.
static mare_err clocks_ready(void *self, mare_message *event)
{
    struct clocks *clocks = self;
    struct epoll_event one;
    uint64_t ticks;
    if (epoll_wait(clocks->epoll, &one, 1, 0) < 1)
        return MARE_EMPTY;
    if (read(clocks->timers[one.data.u32], &ticks, sizeof ticks) < 0)
        return MARE_IO;
    mare_err err = mare_message_add_integer(event, one.data.u32 + 1);
    return err ? err : mare_message_add_integer(event, (int64_t)ticks);
}

static void clocks_destroy(void *self)
{
    struct clocks *clocks = self;
    for (int i = 0; i < CLOCKS; i++)
        close(clocks->timers[i]);
    close(clocks->epoll);
}

static const mare_source_kind clocks_kind = {
    .name = "clocks", .ready = clocks_ready, .destroy = clocks_destroy};

static void clocks_open(struct clocks *clocks)
{
    clocks->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CLOCKS; i++) {
        struct timespec often = {.tv_nsec = 5000000 * (i + 1)};
        struct itimerspec times = {.it_interval = often, .it_value = often};
        struct epoll_event one = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        clocks->timers[i] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        timerfd_settime(clocks->timers[i], 0, &times, NULL);
        epoll_ctl(clocks->epoll, EPOLL_CTL_ADD, clocks->timers[i], &one);
    }
}

// ---- One without --------------------------------------------------------------------------------

struct mailbox {
    pthread_mutex_t mutex;
    pthread_cond_t signal;
    int letters;
};

static mare_err mailbox_poll(void *self, uint64_t timeout_ns, mare_message *event)
{
    struct mailbox *mailbox = self;
    struct timespec till;
    clock_gettime(CLOCK_REALTIME, &till);
    uint64_t nanoseconds = (uint64_t)till.tv_nsec + timeout_ns;
    till.tv_sec += (time_t)(nanoseconds / 1000000000);
    till.tv_nsec = (long)(nanoseconds % 1000000000);
    pthread_mutex_lock(&mailbox->mutex);
    if (mailbox->letters == 0)
        pthread_cond_timedwait(&mailbox->signal, &mailbox->mutex, &till);
    int letters = mailbox->letters;
    mailbox->letters = 0;
    pthread_mutex_unlock(&mailbox->mutex);
    return letters ? mare_message_add_integer(event, letters) : MARE_EMPTY;
}

static const mare_source_kind mailbox_kind = {.name = "mailbox", .poll = mailbox_poll};

// A thread that knows nothing of Maré.
static void *post(void *argument)
{
    struct mailbox *mailbox = argument;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&mailbox->mutex);
        mailbox->letters++;
        pthread_cond_signal(&mailbox->signal);
        pthread_mutex_unlock(&mailbox->mutex);
        usleep(5000);
    }
    return NULL;
}

static const char program[] = "local mare = require 'mare'\n"
                              "local clocks, mailbox = ...\n"
                              "local ticks, letters = {0, 0}, 0\n"
                              "while ticks[1] < 4 or ticks[2] < 2 or letters < 3 do\n"
                              "    local case, a, b = mare.select {clocks, mailbox}\n"
                              "    if case == 1 then ticks[a] = ticks[a] + b end\n"
                              "    if case == 2 then letters = letters + a end\n"
                              "end\n"
                              "print('the clocks tick', ticks[1] >= 4 and ticks[2] >= 2)\n"
                              "print('letters', letters)\n";

int main(void)
{
    mare_runtime *runtime;
    mare_source *sources[2];
    mare_message *arguments;
    mare_process *process;
    pthread_t thread;
    struct clocks clocks;
    struct mailbox mailbox = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    clocks_open(&clocks);
    if (mare_start(NULL, &runtime) ||
        mare_source_create(runtime, &clocks_kind, &clocks, clocks.epoll, 0, &sources[0]) ||
        mare_source_create(runtime, &mailbox_kind, &mailbox, -1, 0, &sources[1]) ||
        mare_message_create(&arguments) || mare_message_add_source(arguments, sources[0]) ||
        mare_message_add_source(arguments, sources[1]) ||
        mare_spawn(runtime, program, strlen(program), "=program", arguments, &process, NULL))
        return 1;
    mare_message_destroy(arguments);
    pthread_create(&thread, NULL, post, &mailbox);
    mare_err err = mare_process_join_until(process, MARE_FOREVER, NULL);
    pthread_join(thread, NULL);
    mare_process_unref(process);
    mare_source_unref(sources[0]);
    mare_source_unref(sources[1]);
    mare_stop(runtime);
    return err;
}
