// SPDX-License-Identifier: MIT
// What others can do with a process. To wait for its end is to wait for a channel that is closed
// then. The channel is made when the first one wants to know.
#include "sched/process.h"

#include "base/alloc.h"
#include "sched/local.h"
#include "sched/runtime.h"
#include "sched/ties.h"
#include "sched/worker.h"

static void ended_destroy(struct mare__object *object)
{
    mare_channel *ended = (mare_channel *)object;
    mare__chan_fini(ended);
    mare__spare_give(MARE__SPARE_CHANNEL, ended);
}

static mare_channel *ended_new(mare_runtime *runtime)
{
    mare_channel *ended = mare__spare_take(MARE__SPARE_CHANNEL, sizeof *ended);
    if (ended)
        mare__chan_init(ended, runtime, 0, ended_destroy);
    return ended;
}

mare_err mare__process_await(mare_process *process, bool observe, mare_channel **ended)
{
    mare_channel *made = ended_new(process->runtime);
    if (made)
        made->ends = process->id;
    mare__lock_acquire(&process->lock);
    if (!process->ended && !process->finished) {
        process->ended = made;
        made = NULL;
    }
    *ended = process->ended;
    bool finished = process->finished;
    process->awaiters += observe && !finished && process->ended;
    mare__lock_release(&process->lock);
    if (made)
        mare_chan_unref(made);
    if (finished && observe)
        mare__process_observed(process);
    return finished ? MARE_CLOSED : *ended ? MARE_OK : MARE_NOMEM;
}

void mare__process_unawait(mare_process *process)
{
    mare__lock_acquire(&process->lock);
    if (process->awaiters > 0)
        process->awaiters--;
    mare__lock_release(&process->lock);
}

void mare__process_observed(mare_process *process)
{
    mare__lock_acquire(&process->lock);
    bool first = process->finished && !process->observed;
    process->observed = true;
    mare__lock_release(&process->lock);
    if (first && !process->abroad)
        mare__local_observed(mare__local_of(process));
}

bool mare__process_kill(mare_process *process, const char *reason)
{
    return process->abroad ? process->abroad->kill(process, reason)
                           : mare__local_kill(mare__local_of(process), reason);
}

const char *mare__process_status(mare_process *process)
{
    if (process->abroad)
        return mare_process_alive(process) ? "elsewhere" : "finished";
    return mare__local_status(mare__local_of(process));
}

void mare__process_init(mare_process *process, mare_runtime *runtime,
                        void (*destroy)(struct mare__object *object))
{
    mare__object_init(&process->object, MARE__KIND_PROCESS, destroy);
    process->runtime = runtime;
    process->id = atomic_fetch_add(&runtime->next_id, 1) + 1;
    mare__list_init(&process->monitors);
}

void mare__process_end(mare_process *process, mare_err how, const mare_message *result)
{
    struct mare__list monitors;
    mare__lock_acquire(&process->lock);
    process->how = how;
    process->result = result;
    mare__list_take(&monitors, &process->monitors);
    atomic_store(&process->finished, true);
    mare__lock_release(&process->lock);
    if (process->ended)
        mare_chan_close(process->ended);
    mare__ties_tell(process);
    mare__monitors_tell(process, &monitors);
}

void mare__process_fini(mare_process *process)
{
    mare__monitors_drop(process);
    if (process->ended)
        mare_chan_unref(process->ended);
    mare__free(process->kill_reason);
    mare__free(process->name);
}

bool mare_process_kill(mare_process *process)
{
    return mare__runtime_valid(process->runtime) && mare__process_kill(process, NULL);
}

mare_process *mare_process_ref(mare_process *process)
{
    return mare__ref(&process->object);
}

void mare_process_unref(mare_process *process)
{
    mare__unref(&process->object);
}

uint64_t mare_process_id(const mare_process *process)
{
    return process->id;
}

bool mare_process_alive(const mare_process *process)
{
    return !atomic_load(&process->finished);
}
