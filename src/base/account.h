// SPDX-License-Identifier: MIT
// An account counts memory, up to a limit. Code takes bytes from it, and gives them back. A process
// with a limit shares its account with the objects that it has made and the messages that it has
// sent. Any thread that has a reference to an account may use it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mare__account;

// A new account with one reference, or NULL.
struct mare__account *mare__account_new(size_t limit);

struct mare__account *mare__account_ref(struct mare__account *account);
void mare__account_unref(struct mare__account *account); // or NULL

// Takes bytes; false: there are not so many left, and nothing was taken.
bool mare__account_take(struct mare__account *account, size_t bytes);

// Takes bytes that are in use already, whether there are so many left or not.
void mare__account_owe(struct mare__account *account, size_t bytes);
void mare__account_give(struct mare__account *account, size_t bytes);

// The most that can be taken; a hint.
size_t mare__account_left(const struct mare__account *account);
size_t mare__account_used(const struct mare__account *account);

// The account that pays for messages that this thread makes: that of the process that it runs, if
// it has a limit, or NULL.
extern _Thread_local struct mare__account *mare__paying __attribute__((tls_model("initial-exec")));
