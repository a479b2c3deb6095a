// SPDX-License-Identifier: MIT
// The event loop, by libuv.
#include "platform/loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "platform/socket.h"

static void on_bell(uv_async_t *bell)
{
    (void)bell; // it has done its work: the wait is over
}

// uv_run calls this before it waits if the time has come by then, and would wait all the same.
static void on_alarm(uv_timer_t *alarm)
{
    uv_stop(alarm->loop);
}

static bool make(struct mare__loop *loop)
{
    enum { NEEDED = 8 }; // descriptors: libuv's first loop ends the program when there are less
    if (!mare__descriptors_left(NEEDED) || uv_loop_init(&loop->uv) != 0)
        return false;
    if (uv_async_init(&loop->uv, &loop->bell, on_bell) != 0) {
        uv_loop_close(&loop->uv);
        return false;
    }
    uv_timer_init(&loop->uv, &loop->alarm);
    return true;
}

static bool live_init(void *context, struct mare__loop *loop)
{
    (void)context;
    // If the program was started without standard input, output or error, something must be in
    // their place: libuv would take those, which others write to, and refuse to close them.
    int places[STDERR_FILENO + 1], count = 0, fd;
    while ((fd = eventfd(0, EFD_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        places[count++] = fd;
    if (fd >= 0)
        close(fd);
    bool made = make(loop);
    while (count > 0)
        close(places[--count]);
    return made;
}

static void live_fini(struct mare__loop *loop)
{
    uv_close((uv_handle_t *)&loop->bell, NULL);
    uv_close((uv_handle_t *)&loop->alarm, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
}

static void live_look(struct mare__loop *loop)
{
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

static void live_wait(struct mare__loop *loop, uint64_t ns)
{
    if (ns != UINT64_MAX) {
        uv_update_time(&loop->uv);
        uv_timer_start(&loop->alarm, on_alarm, ns / 1000000 + (ns % 1000000 > 0), 0);
    }
    uv_run(&loop->uv, UV_RUN_ONCE);
    uv_timer_stop(&loop->alarm);
}

static void live_ring(struct mare__loop *loop)
{
    uv_async_send(&loop->bell);
}

// ---- Descriptors --------------------------------------------------------------------------------

static void on_poll(uv_poll_t *uv, int status, int events)
{
    struct mare__poll *poll = uv->data;
    unsigned ways = MARE__READABLE | MARE__WRITABLE | MARE__BROKEN;
    if (status == 0)
        ways = (events & UV_READABLE ? MARE__READABLE : 0) |
               (events & UV_WRITABLE ? MARE__WRITABLE : 0);
    poll->ready(poll, ways); // with an error, libuv has stopped to watch it
}

static void on_poll_closed(uv_handle_t *uv)
{
    struct mare__poll *poll = uv->data;
    poll->closed(poll);
}

static bool live_open(struct mare__loop *loop, struct mare__poll *poll, int fd)
{
    bool opened = uv_poll_init(&loop->uv, &poll->uv, fd) == 0;
    poll->uv.data = poll;
    return opened;
}

static void live_want(struct mare__poll *poll, unsigned ways)
{
    int events =
        (ways & MARE__READABLE ? UV_READABLE : 0) | (ways & MARE__WRITABLE ? UV_WRITABLE : 0);
    if (events)
        uv_poll_start(&poll->uv, events, on_poll);
    else
        uv_poll_stop(&poll->uv);
}

static void live_close(struct mare__poll *poll)
{
    uv_close((uv_handle_t *)&poll->uv, on_poll_closed);
}

const struct mare__loops mare__loops_live = {.init = live_init,
                                             .fini = live_fini,
                                             .look = live_look,
                                             .wait = live_wait,
                                             .ring = live_ring,
                                             .open = live_open,
                                             .want = live_want,
                                             .close = live_close};
