// SPDX-License-Identifier: MIT
// The names under which channels and processes are found. One space for both, so that a name means
// one thing.
#pragma once

#include "base/object.h"
#include <mare.h>

struct mare__names;

// NULL when there is no memory.
struct mare__names *mare__names_create(void);

// Gives back every reference.
void mare__names_destroy(struct mare__names *names);

// Registers, keeping a reference: MARE_EXISTS, MARE_NOMEM.
mare_err mare__names_add(struct mare__names *names, const char *name, struct mare__object *object);

// A new reference to what has the name, or NULL.
struct mare__object *mare__names_find(struct mare__names *names, const char *name);

// Ends the registration if that object still has it, and gives back its reference.
void mare__names_remove(struct mare__names *names, const char *name, struct mare__object *object);
