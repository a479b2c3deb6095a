// SPDX-License-Identifier: MIT
// Waiting for a job: for its channel, which is closed when it is over.
#include "lua/job.h"

int mare__lua_wait_job(lua_State *L, struct mare__job *job, uint64_t deadline, lua_KFunction then,
                       lua_KContext context)
{
    struct mare__local *self = mare__self(L);
    mare__job_expect(job);
    return mare__block(L, self, MARE__WAITS_TO_RECEIVE, job->done, deadline, then, context);
}

mare_err mare__lua_job_outcome(lua_State *L, struct mare__job *job)
{
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    mare_err err = self->sleep.wait.result;
    bool over = mare__job_is_over(job); // before leaving: leaving may cancel a job that has not
                                        // begun
    mare__job_leave(job);
    // A job that ended at the last moment counts as ended; but a cancelled wait stays cancelled.
    return over && (err == MARE_TIMEOUT || err == MARE_CLOSED) ? MARE_OK : err;
}

int mare__lua_fail_job(lua_State *L, const struct mare__job *job, mare_err err)
{
    if (err != MARE_TIMEOUT || job->held_back == 0)
        return mare__lua_fail(L, err);
    lua_pushfstring(L, "%s before a thread was free: %d are stuck in calls given up before",
                    mare_strerror(err), (int)job->held_back);
    return mare__lua_fail_with(L, err);
}
