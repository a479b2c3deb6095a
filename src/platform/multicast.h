// SPDX-License-Identifier: MIT
// Multicast datagrams on one interface, IPv4. The sockets are those of udp.h: send to the group's
// address, receive and wait as there.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether an address is one of a group, IPv4.
bool mare__multicast_is_group(const uint8_t *address);

// A socket that hears what is sent to the group, what this machine sends included; several programs
// may hear the same group. `interface` is the address of the interface to use; its port does not
// matter. Returns a descriptor, or minus an errno value.
int mare__multicast_join(const uint8_t *group, const uint8_t *interface);
