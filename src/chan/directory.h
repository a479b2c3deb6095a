// SPDX-License-Identifier: MIT
// The names under which channels and processes are found. One space for both, so that a name means
// one thing.
#pragma once

#include "base/object.h"
#include <mare.h>

struct mare__directory;

// NULL when there is no memory.
struct mare__directory *mare__directory_create(void);

// Gives back every reference.
void mare__directory_destroy(struct mare__directory *names);

// Registers, keeping a reference: MARE_EXISTS, MARE_NOMEM.
mare_err mare__directory_add(struct mare__directory *names, const char *name,
                             struct mare__object *object);

// A new reference to what has the name, or NULL.
struct mare__object *mare__directory_find(struct mare__directory *names, const char *name);

// Ends the registration if that object still has it, and gives back its reference.
void mare__directory_remove(struct mare__directory *names, const char *name,
                            struct mare__object *object);
