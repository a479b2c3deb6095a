-- SPDX-License-Identifier: MIT
-- How much may wait in programs of `alua`; what is more is refused, and who sent it is told.
return {
    chunks = 10000,     -- that one process has not run yet
    bytes = 16 << 20,   -- in them, if it is more than one
    calls = 10000,      -- that one process has not been answered
    requests = 256,     -- of this program's processes, before the daemon looks at them
    queue = 10000,      -- messages that wait for another node
    processes = 10000,  -- that one request may make
}
