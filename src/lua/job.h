// SPDX-License-Identifier: MIT
// What the bindings of blocking work share.
#pragma once

#include "loop/job.h"
#include "lua/binding.h"

// Waits until the job is over, then goes on with `then`, which begins with mare__lua_job_outcome.
// Something on the stack must hold the job.
int mare__lua_wait_job(lua_State *L, struct mare__job *job, uint64_t deadline, lua_KFunction then,
                       lua_KContext context);

// MARE_OK: the job is over. Else why the wait ended.
mare_err mare__lua_job_outcome(lua_State *L, struct mare__job *job);

// As mare__lua_fail, for a job with an outcome. Also says which stuck jobs have held it back.
int mare__lua_fail_job(lua_State *L, const struct mare__job *job, mare_err err);
