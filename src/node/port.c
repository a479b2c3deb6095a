// SPDX-License-Identifier: MIT
// Ports and their bells: how news from any thread reaches the task of a session.
#include "base/alloc.h"
#include "node/inner.h"

void mare__port_init(struct mare__port *port, const struct mare__port_ops *ops,
                     struct mare__session *session, uint64_t id)
{
    port->ops = ops;
    atomic_init(&port->holds, 1); // the session's hold
    port->session = session;
    mare__task_hold(&session->task);
    port->id = id;
    mare__list_init(&port->stirred);
    mare__list_append(&session->ports, &port->in_all);
}

void mare__port_unhold(struct mare__port *port)
{
    // Acquire and release: as in mare__unref.
    if (atomic_fetch_sub_explicit(&port->holds, 1, memory_order_acq_rel) != 1)
        return;
    struct mare__session *session = port->session;
    port->ops->destroy(port);
    mare__task_release(&session->task);
}

bool mare__port_stir(struct mare__port *port)
{
    struct mare__session *session = port->session;
    mare__lock_acquire(&session->lock);
    bool lost = session->lost, news = !lost && !port->is_stirred;
    if (news) {
        mare__port_hold(port);
        mare__list_append(&session->stirred, &port->stirred);
        port->is_stirred = true;
    }
    mare__lock_release(&session->lock);
    if (news)
        mare__task_nudge(&session->task);
    return !lost;
}

void mare__port_leave(struct mare__port *port)
{
    if (port->has_id)
        mare__index_remove(&port->by_id);
    if (port->has_tag)
        mare__index_remove(&port->by_tag);
    port->has_id = port->has_tag = false;
    mare__list_remove(&port->in_all);
    mare__port_unhold(port);
}

bool mare__port_revive(struct mare__object *object)
{
    unsigned references = atomic_load(&object->references);
    while (references > 0)
        if (atomic_compare_exchange_weak(&object->references, &references, references + 1))
            return true;
    return false;
}

// ---- Bells --------------------------------------------------------------------------------------

void mare__node_deliver(mare_channel *channel, mare_message *message)
{
    struct mare__letter *letter = mare__alloc_zero(sizeof *letter);
    if (!letter) {
        mare__message_clear(message);
        return;
    }
    mare__letter_init(letter);
    mare__message_move(&letter->wait.message, message);
    mare__chan_post(channel, letter);
}

static void destroy(struct mare__object *object)
{
    struct mare__bell *bell = MARE__ENTRY(object, struct mare__bell, task.object);
    if (bell->from && !mare__message_empty(&bell->message)) // the port is gone, and nobody took the
                                                            // message
        mare__node_deliver(bell->from, &bell->message);
    mare__message_clear(&bell->message);
    mare__port_unhold(bell->port);
    mare__free(bell);
}

static bool run(struct mare__task *task)
{
    struct mare__bell *bell = MARE__ENTRY(task, struct mare__bell, task);
    struct mare__port *port = bell->port;
    bell->result = task->wait.result;
    if (!mare__message_empty(&task->wait.message))
        mare__message_move(&bell->message, &task->wait.message);
    bell->rang = true;
    // Release: pairs with the acquires in mare__bell_rang and mare__bell_rests, so that the session
    // sees what was written above. From here on the session may start the task again.
    atomic_store_explicit(&bell->busy, false, memory_order_release);
    mare__port_stir(port);
    return false;
}

struct mare__bell *mare__bell_new(struct mare__port *port)
{
    struct mare__bell *bell = mare__alloc_zero(sizeof *bell);
    if (!bell)
        return NULL;
    mare__task_init(&bell->task, port->session->task.runtime, run, destroy);
    mare__message_init(&bell->message);
    mare__port_hold(port);
    bell->port = port;
    return bell;
}

void mare__bell_receive(struct mare__bell *bell, mare_channel *channel)
{
    atomic_store_explicit(&bell->busy, true, memory_order_relaxed); // not started yet: nobody else
                                                                    // sees it
    bell->from = channel;
    mare__task_receive(&bell->task, channel, MARE_FOREVER);
    mare__task_start(&bell->task);
}

void mare__bell_send(struct mare__bell *bell, mare_channel *channel)
{
    atomic_store_explicit(&bell->busy, true, memory_order_relaxed); // relaxed: as above
    bell->from = NULL;
    mare__task_send(&bell->task, channel, &bell->message, MARE_FOREVER);
    mare__task_start(&bell->task);
}

bool mare__bell_rang(struct mare__bell *bell)
{
    // Acquire: pairs with the release in run, so that this thread sees the result.
    if (!bell || atomic_load_explicit(&bell->busy, memory_order_acquire) || !bell->rang)
        return false;
    bell->rang = false;
    return true;
}

void mare__bell_end(struct mare__bell *bell)
{
    if (!bell)
        return;
    mare__task_cancel(&bell->task);
    mare__task_release(&bell->task);
}
