// SPDX-License-Identifier: MIT
// A tap on a link: frames as text, for golden scripts and for the page of the protocol.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Bytes of the frame that begins here, its length included; 0: not all of it is here.
size_t tap_frame(const uint8_t *bytes, size_t size);

// Writes "DATA 7 'hello'": the kind, then the elements. Bytes that can be shown are quoted, others
// are counted.
void tap_describe(FILE *out, const uint8_t *frame, size_t size);

// "DATA"; NULL for a kind that is not known.
const char *tap_kind_name(unsigned kind);

// Shows its bytes, in lines of 24, up to 64 of them.
void tap_bytes(FILE *out, const uint8_t *frame, size_t size);
