// SPDX-License-Identifier: MIT
// Processes of one node, as the other sees them. A proxy is the shared half of a process alone: it
// is told how the process ended, and passes on what is done to it.
#include "base/alloc.h"
#include "node/inner.h"
#include "sched/process.h"

enum { REASON = 255 }; // bytes of a reason that cross

// ---- The proxy ----------------------------------------------------------------------------------

struct proxy {
    struct mare__port port;
    uint64_t received;   // how often a reference came
    atomic_bool gone;    // nobody refers to it any more
    atomic_bool dropped; // and its hold was given back
    atomic_bool tied;    // one of this node is linked to it
    bool tie_told, ended, released;
    mare_message result;
    mare__lock lock;      // guards what follows
    bool killing;         // somebody wants its end
    char *reason;         // or NULL
    mare_process process; // what the program has
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

static void proxy_tie(mare_process *process)
{
    struct proxy *proxy = of_process(process);
    atomic_store(&proxy->tied, true);
    mare__port_stir(&proxy->port);
}

static const struct mare__abroad abroad = {proxy_kill, proxy_tie};

static void drop(struct proxy *proxy)
{
    if (!atomic_exchange(&proxy->dropped, true))
        mare__port_unhold(&proxy->port);
}

static void process_destroy(struct mare__object *object)
{
    struct proxy *proxy = of_process((mare_process *)object);
    mare__port_hold(&proxy->port); // once it is seen to be gone, the session may let go of it
    atomic_store(&proxy->gone, true);
    if (!mare__port_stir(&proxy->port))
        drop(proxy);
    mare__port_unhold(&proxy->port);
}

static void proxy_serve(struct mare__port *port)
{
    struct proxy *proxy = proxy_of(port);
    struct mare__session *session = port->session;
    mare__lock_acquire(&proxy->lock);
    bool kills = proxy->killing && !proxy->ended;
    char *reason = kills ? proxy->reason : NULL;
    if (kills) {
        proxy->killing = false;
        proxy->reason = NULL;
    }
    mare__lock_release(&proxy->lock);
    if (!proxy->ended && atomic_load(&proxy->tied) && !proxy->tie_told) {
        proxy->tie_told = true;
        mare__control_send(session,
                           &(struct mare__control){.kind = MARE__CONTROL_TIE, .a = port->id});
    }
    if (kills)
        mare__control_send(session,
                           &(struct mare__control){.kind = MARE__CONTROL_KILL,
                                                   .a = port->id,
                                                   .text = mare__span_of(reason ? reason : "")});
    mare__free(reason);
    if (!atomic_load(&proxy->gone) || port->lent > 0 || proxy->released)
        return;
    proxy->released = true;
    mare__control_send(session, &(struct mare__control){.kind = MARE__CONTROL_RELEASE,
                                                        .a = port->id * 2 + 1,
                                                        .b = proxy->received});
    session->proxies--;
    mare__port_leave(port);
    drop(proxy);
}

static void end(struct proxy *proxy, mare_err how)
{
    if (proxy->ended)
        return;
    proxy->ended = true;
    if (!atomic_load(&proxy->gone))
        mare__process_end(&proxy->process, how, &proxy->result);
}

static void proxy_lost(struct mare__port *port)
{
    struct proxy *proxy = proxy_of(port);
    if (!proxy->ended)
        mare_message_add_string(&proxy->result, mare_strerror(MARE_NONODE)); // or nothing
    end(proxy, MARE_NONODE);
    if (atomic_load(&proxy->gone))
        drop(proxy);
}

static void proxy_destroy(struct mare__port *port)
{
    struct proxy *proxy = proxy_of(port);
    mare__process_fini(&proxy->process);
    mare__message_clear(&proxy->result);
    mare__free(proxy->reason);
    mare__free(proxy);
}

void mare__far_ended(struct mare__port *port, const struct mare__control *control)
{
    struct proxy *proxy = proxy_of(port);
    if (proxy->ended)
        return;
    mare_err how = (mare_err)control->b;
    bool known = how == MARE_OK || how == MARE_DIED || how == MARE_KILLED || how == MARE_BADMSG ||
                 how == MARE_NONODE;
    if (!known || mare__session_read(port->session, (const uint8_t *)control->body.at,
                                     control->body.size, &proxy->result)) {
        mare__session_blame(port->session, "an end that is none");
        return;
    }
    if (how == MARE_KILLED && control->text.size > 0) {
        char *reason = mare__alloc(control->text.size + 1);
        if (reason) {
            memcpy(reason, control->text.at, control->text.size);
            reason[control->text.size] = 0;
        }
        proxy->process.kill_reason = reason; // nobody reads it before the end
    }
    end(proxy, how);
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
    if (proxy) { // it is about to let go
        mare__index_remove(&proxy->port.by_id);
        proxy->port.has_id = false;
    }
    proxy = session->proxies < MARE__NODE_PROXIES ? mare__alloc_zero(sizeof *proxy) : NULL;
    if (!proxy)
        return NULL;
    session->proxies++;
    mare__port_init(&proxy->port, &proxy_ops, session, id);
    mare__port_hold(&proxy->port); // the process's
    mare__process_init(&proxy->process, session->task.runtime, process_destroy);
    proxy->process.abroad = &abroad;
    proxy->received = 1;
    mare__index_add(&session->fars, &proxy->port.by_id, id * 2 + 1);
    proxy->port.has_id = true;
    mare__control_send(session, &(struct mare__control){.kind = MARE__CONTROL_WATCH, .a = id});
    return &proxy->process.object;
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
    struct mare__bell *end; // waits for it
    bool watched, told, tied;
};

static struct export *export_of(struct mare__port *port)
{
    return MARE__ENTRY(port, struct export, port);
}

// Tells the peer how it ended.
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
    if (!parcel) { // what it returned cannot cross
        mare_message_add_string(&result, why ? why : "not enough memory");
        parcel = mare__parcel_new(session, &result, MARE__FLAG_PLAIN);
    }
    if (!parcel)
        return;
    const mare_message *body = &parcel->message;
    mare__control_send(
        session, &(struct mare__control){
                     .kind = MARE__CONTROL_ENDED,
                     .a = export->port.id,
                     .b = (uint64_t)how,
                     .text = {process->kill_reason ? process->kill_reason : "",
                              process->kill_reason ? strnlen(process->kill_reason, REASON) : 0},
                     .body = {(const char *)mare__message_data(body), body->length}});
    mare__parcel_free(parcel);
}

static void export_serve(struct mare__port *port)
{
    struct export *export = export_of(port);
    if (mare__bell_rang(export->end) && !export->told && !mare_process_alive(export->process))
        tell(export);
}

static void export_lost(struct mare__port *port)
{
    struct export *export = export_of(port);
    mare__bell_end(export->end);
    export->end = NULL;
    if (export->tied)
        mare__process_kill(export->process, "linked to a process whose node was lost");
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
        export = mare__alloc_zero(sizeof *export);
        if (!export)
            return 0;
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

// The export of a process, or the peer has broken a rule.
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
    export->told = false; // a new proxy, perhaps
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

void mare__export_tie(struct mare__session *session, uint64_t id)
{
    struct export *export = demand(session, id);
    if (export)
        export->tied = true;
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
    export_lost(&export->port);
    mare__port_leave(&export->port);
}
