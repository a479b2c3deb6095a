// SPDX-License-Identifier: MIT
// Processes of one node, as the other node sees them. A proxy stands for a process of the peer. It
// is the shared half of a process and runs no code: the peer tells it how the process ended, and it
// passes kills and links on to the process's home node.
#include "base/alloc.h"
#include "node/inner.h"
#include "sched/process.h"

enum { REASON = 255 }; // bytes of a reason that cross

// ---- The proxy ----------------------------------------------------------------------------------

struct proxy {
    struct mare__port port;
    uint64_t received;   // how many references to it came from the peer
    atomic_bool gone;    // the program holds no reference to it any more
    atomic_bool dropped; // and its own hold on the port was given back
    bool tie_told;       // home knows that a process here is linked to it
    bool ended, released;
    mare_err how;                // how the process ended
    struct mare__parcel *parcel; // holds what it returned until claims are answered; or NULL
    mare_message result;
    mare__lock lock;      // guards what follows
    bool killing;         // somebody here wants to kill it
    char *reason;         // or NULL
    mare_process process; // what the program sees
};

static struct proxy *proxy_of(struct mare__port *port)
{
    return MARE__ENTRY(port, struct proxy, port);
}

static struct proxy *of_process(const mare_process *process)
{
    return MARE__ENTRY((mare_process *)process, struct proxy, process);
}

static bool proxy_kill(mare_process *process, const char *reason)
{
    struct proxy *proxy = of_process(process);
    size_t size = reason ? strnlen(reason, REASON) : 0;
    char *copy = reason ? mare__alloc(size + 1) : NULL;
    if (copy) {
        memcpy(copy, reason, size);
        copy[size] = 0;
    }
    mare__lock_acquire(&proxy->lock);
    if (!proxy->killing) {
        proxy->reason = copy;
        copy = NULL;
    }
    proxy->killing = true;
    mare__lock_release(&proxy->lock);
    mare__free(copy);
    return mare_process_alive(process) && mare__port_stir(&proxy->port);
}

static void proxy_tied(mare_process *process)
{
    mare__port_stir(&of_process(process)->port);
}

static const struct mare__abroad abroad = {proxy_kill, proxy_tied};

static void drop(struct proxy *proxy)
{
    if (!atomic_exchange(&proxy->dropped, true))
        mare__port_unhold(&proxy->port);
}

static void process_destroy(struct mare__object *object)
{
    struct proxy *proxy = of_process((mare_process *)object);
    mare__port_hold(&proxy->port); // the session may release the port as soon as it sees `gone`
    atomic_store(&proxy->gone, true);
    if (!mare__port_stir(&proxy->port))
        drop(proxy);
    mare__port_unhold(&proxy->port);
}

static void end(struct proxy *proxy, mare_err how)
{
    if (proxy->ended)
        return;
    proxy->ended = true;
    if (!atomic_load(&proxy->gone))
        mare__process_end(&proxy->process, how, &proxy->result);
}

// Tells those who wait for the process's end, with what the process returned.
static void tell_end(struct proxy *proxy)
{
    struct mare__object *self = &proxy->process.object;
    bool used = mare__port_revive(self); // so that nobody lets go of it meanwhile
    mare__message_move(&proxy->result, &proxy->parcel->message);
    mare__parcel_free(proxy->parcel);
    proxy->parcel = NULL;
    mare__message_disown(&proxy->result, self); // it may have returned itself
    end(proxy, proxy->how);
    if (used)
        mare__unref(self);
}

static bool is_tied(struct proxy *proxy)
{
    mare__lock_acquire(&proxy->process.lock);
    bool tied = mare__index_any(&proxy->process.ties) != NULL;
    mare__lock_release(&proxy->process.lock);
    return tied;
}

// Tells the process's home, if this changed, whether the process must end when this node is lost.
static void tell_tie(struct proxy *proxy, bool tied)
{
    if (tied == proxy->tie_told || proxy->ended)
        return;
    proxy->tie_told = tied;
    mare__control_send(
        proxy->port.session,
        &(struct mare__control){.kind = tied ? MARE__CONTROL_TIE : MARE__CONTROL_UNTIE,
                                .a = proxy->port.id});
}

static void proxy_serve(struct mare__port *port)
{
    struct proxy *proxy = proxy_of(port);
    struct mare__session *session = port->session;
    if (proxy->parcel && mare__list_empty(&proxy->parcel->claims))
        tell_end(proxy);
    // A process here that is linked to it and dies badly kills it first, and undoes the link after
    // that (mare__ties_tell). So read the ties before `killing`, and send the kill before the
    // untie: then home may hear of the kill without the untie, but never of the untie without the
    // kill.
    bool tied = is_tied(proxy);
    mare__lock_acquire(&proxy->lock);
    bool kills = proxy->killing && !proxy->ended;
    char *reason = kills ? proxy->reason : NULL;
    if (kills) {
        proxy->killing = false;
        proxy->reason = NULL;
    }
    mare__lock_release(&proxy->lock);
    if (kills)
        mare__control_send(session,
                           &(struct mare__control){.kind = MARE__CONTROL_KILL,
                                                   .a = port->id,
                                                   .text = mare__span_of(reason ? reason : "")});
    mare__free(reason);
    tell_tie(proxy, tied);
    if (!atomic_load(&proxy->gone) || port->lent > 0 || proxy->released)
        return;
    proxy->released = true;
    if (proxy->parcel)
        mare__parcel_free(proxy->parcel);
    proxy->parcel = NULL;
    mare__control_send(session, &(struct mare__control){.kind = MARE__CONTROL_RELEASE,
                                                        .a = port->id * 2 + 1,
                                                        .b = proxy->received});
    session->proxies--;
    mare__port_leave(port);
    drop(proxy);
}

static void proxy_lost(struct mare__port *port)
{
    struct proxy *proxy = proxy_of(port);
    if (proxy->parcel)
        tell_end(proxy);
    if (!proxy->ended)
        mare_message_add_string(&proxy->result, mare_strerror(MARE_NONODE)); // without memory: no
                                                                             // reason
    end(proxy, MARE_NONODE);
    if (atomic_load(&proxy->gone))
        drop(proxy);
}

static void proxy_destroy(struct mare__port *port)
{
    struct proxy *proxy = proxy_of(port);
    mare__process_fini(&proxy->process);
    mare__message_forget(&proxy->result, &proxy->process.object);
    mare__message_clear(&proxy->result);
    mare__free(proxy->reason);
    mare__free(proxy);
}

void mare__far_ended(struct mare__port *port, const struct mare__control *control)
{
    struct proxy *proxy = proxy_of(port);
    if (proxy->ended || proxy->parcel)
        return;
    unsigned flag = (control->b & MARE__ENDED_INTRODUCED ? MARE__FLAG_INTRODUCED : 0) |
                    (control->b & MARE__ENDED_TRACED ? MARE__FLAG_TRACED : 0);
    mare_err how =
        (mare_err)(control->b & ~(uint64_t)(MARE__ENDED_INTRODUCED | MARE__ENDED_TRACED));
    bool known = how == MARE_OK || how == MARE_DIED || how == MARE_KILLED || how == MARE_BADMSG ||
                 how == MARE_NONODE;
    if (known)
        proxy->parcel =
            mare__parcel_read(port, flag, (const uint8_t *)control->body.at, control->body.size);
    else
        mare__session_blame(port->session, "an end that is none");
    if (!proxy->parcel)
        return;
    if (how == MARE_KILLED && control->text.size > 0) {
        char *reason = mare__alloc(control->text.size + 1);
        if (reason) {
            memcpy(reason, control->text.at, control->text.size);
            reason[control->text.size] = 0;
        }
        proxy->process.kill_reason = reason; // nobody reads it before the end
    }
    proxy->how = how;
    mare__port_hold(port);
    proxy_serve(port);
    mare__port_unhold(port);
}

static const struct mare__port_ops proxy_ops = {proxy_serve, proxy_lost, proxy_destroy, NULL};

struct mare__object *mare__far_process(struct mare__session *session, uint64_t id)
{
    struct mare__index_entry *entry = mare__index_find(&session->fars, id * 2 + 1);
    struct proxy *proxy = entry ? proxy_of(MARE__ENTRY(entry, struct mare__port, by_id)) : NULL;
    if (proxy && mare__port_revive(&proxy->process.object)) {
        proxy->received++;
        return &proxy->process.object;
    }
    if (proxy) { // the program let go of it; its release is under way
        mare__index_remove(&proxy->port.by_id);
        proxy->port.has_id = false;
    }
    proxy = session->proxies < MARE__NODE_PROXIES ? mare__alloc_zero(sizeof *proxy) : NULL;
    if (!proxy)
        return NULL;
    session->proxies++;
    mare__port_init(&proxy->port, &proxy_ops, session, id);
    mare__port_hold(&proxy->port); // the process's hold
    mare__process_init(&proxy->process, session->task.runtime, process_destroy);
    proxy->process.abroad = &abroad;
    proxy->received = 1;
    mare__index_add(&session->fars, &proxy->port.by_id, id * 2 + 1);
    proxy->port.has_id = true;
    mare__control_send(session, &(struct mare__control){.kind = MARE__CONTROL_WATCH, .a = id});
    return &proxy->process.object;
}

struct mare__object *mare__far_process_face(struct mare__port *port)
{
    return &proxy_of(port)->process.object;
}

struct mare__port *mare__far_process_port(const mare_process *process)
{
    return process->abroad == &abroad ? &of_process(process)->port : NULL;
}

// ---- At home ------------------------------------------------------------------------------------

struct export
{
    struct mare__port port;
    mare_process *process; // a reference
    uint64_t count;
    struct mare__bell *end; // waits for the end of the process
    bool watched, told, tied;
};

static struct export *export_of(struct mare__port *port)
{
    return MARE__ENTRY(port, struct export, port);
}

// Tells the peer how the process ended.
static void tell(struct export *export)
{
    struct mare__session *session = export->port.session;
    mare_process *process = export->process;
    mare_message result;
    struct mare__parcel *parcel = NULL;
    mare__message_init(&result);
    export->told = true;
    const char *why = NULL;
    bool whole = mare__node_check(process->result, MARE__NODE_RESULT, &why) == MARE_OK &&
                 mare__message_copy(&result, process->result);
    if (whole)
        parcel = mare__parcel_new(session, &result, MARE__FLAG_PLAIN);
    mare_err how = whole ? process->how : process->how == MARE_OK ? MARE_BADMSG : process->how;
    if (!parcel) { // the result cannot cross to the peer
        mare_message_add_string(&result, why ? why : "not enough memory");
        parcel = mare__parcel_new(session, &result, MARE__FLAG_PLAIN);
    }
    if (!parcel)
        return;
    uint8_t number[MARE__TRACED_SIZE];
    uint64_t event = mare__session_number(session, process->result);
    const mare_message *body = &parcel->message;
    struct mare__control control = {
        .kind = MARE__CONTROL_ENDED,
        .a = export->port.id,
        .b = (uint64_t)how,
        .text = mare__span_of(process->kill_reason ? process->kill_reason : ""),
        .body = {(const char *)mare__message_data(body), body->length}};
    if (control.text.size > REASON)
        control.text.size = REASON;
    mare_message whole_body;
    mare__message_init(&whole_body);
    mare__put64(number, event);
    if ((parcel->head || event) &&
        mare__message_append(&whole_body, number, event ? sizeof number : 0) &&
        (!parcel->head || mare__message_append(&whole_body, parcel->head, parcel->head_size)) &&
        mare__message_append(&whole_body, mare__message_data(body), body->length)) {
        control.b |= (parcel->head ? MARE__ENDED_INTRODUCED : 0) | (event ? MARE__ENDED_TRACED : 0);
        control.body =
            (struct mare__span){(const char *)mare__message_data(&whole_body), whole_body.length};
    }
    mare__control_send(session, &control);
    mare__message_clear(&whole_body);
    mare__parcel_free(parcel);
}

static void export_lost(struct mare__port *port)
{
    struct export *export = export_of(port);
    mare__bell_end(export->end);
    export->end = NULL;
    if (export->tied)
        mare__process_kill(export->process, "linked to a process whose node was lost");
}

static void give_up(struct export *export)
{
    export->port.session->exported--;
    export_lost(&export->port);
    mare__port_leave(&export->port);
}

static void export_serve(struct mare__port *port)
{
    struct export *export = export_of(port);
    if (mare__bell_rang(export->end) && !export->told && !mare_process_alive(export->process))
        tell(export);
    // The peer released it while it was alive and tied. Such a peer does not untie it: let go of it
    // now that it has ended.
    if (export->count == 0 && port->has_id && !mare_process_alive(export->process))
        give_up(export);
}

static void export_destroy(struct mare__port *port)
{
    struct export *export = export_of(port);
    mare_process_unref(export->process);
    mare__free(export);
}

static const struct mare__port_ops export_ops = {export_serve, export_lost, export_destroy, NULL};

static struct export *find(struct mare__session *session, uint64_t id)
{
    struct mare__index_entry *entry = mare__index_find(&session->exports, id * 2 + 1);
    return entry ? export_of(MARE__ENTRY(entry, struct mare__port, by_id)) : NULL;
}

uint64_t mare__export_process(struct mare__session *session, mare_process *process)
{
    struct export *export = find(session, process->id);
    if (!export) {
        export = mare__export_room(session) ? mare__alloc_zero(sizeof *export) : NULL;
        if (!export)
            return 0;
        session->exported++;
        mare__port_init(&export->port, &export_ops, session, process->id);
        export->process = mare_process_ref(process);
        mare__index_add(&session->exports, &export->port.by_id, process->id * 2 + 1);
        export->port.has_id = true;
    }
    export->count++;
    return process->id;
}

struct mare__object *mare__export_process_find(struct mare__session *session, uint64_t id)
{
    struct export *export = find(session, id);
    return export ? mare__ref(&export->process->object) : NULL;
}

// The export of a process. NULL: the peer named one that it was not given, and was blamed.
static struct export *demand(struct mare__session *session, uint64_t id)
{
    struct export *export = find(session, id);
    if (!export)
        mare__session_blame(session, "a process that it was not given");
    return export;
}

void mare__export_watch(struct mare__session *session, uint64_t id)
{
    struct export *export = demand(session, id);
    mare_channel *ended;
    if (!export)
        return;
    export->told = false; // the peer may have made a new proxy, which has not heard
    mare_err err = mare__process_await(export->process, false, &ended);
    if (err == MARE_CLOSED) {
        tell(export);
    } else if (!export->end && !err) {
        export->end = mare__bell_new(&export->port);
        if (export->end)
            mare__bell_receive(export->end, ended);
    }
}

void mare__export_kill(struct mare__session *session, uint64_t id, struct mare__span reason)
{
    struct export *export = demand(session, id);
    if (!export)
        return;
    char text[256];
    size_t size = reason.size < sizeof text ? reason.size : sizeof text - 1;
    memcpy(text, reason.size ? reason.at : "", size);
    text[size] = 0;
    mare__process_kill(export->process, size > 0 ? text : NULL);
}

void mare__export_tie(struct mare__session *session, uint64_t id, bool tied)
{
    struct export *export = demand(session, id);
    if (export)
        export->tied = tied;
}

void mare__export_process_release(struct mare__session *session, uint64_t id, uint64_t count)
{
    struct export *export = demand(session, id);
    if (!export)
        return;
    if (export->count < count) {
        mare__session_blame(session, "a release of what it was not given");
        return;
    }
    export->count -= count;
    if (export->count > 0 || (export->tied && mare_process_alive(export->process)))
        return;
    give_up(export);
}
