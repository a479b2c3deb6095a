-- SPDX-License-Identifier: MIT
-- How much may wait in programs of `alua`. A program refuses more, and tells the sender.
return {
    chunks = 10000,     -- chunks that one process has not run yet
    bytes = 16 << 20,   -- bytes in those chunks, if there is more than one
    calls = 10000,      -- calls of one process without an answer yet
    requests = 256,     -- requests of this program's processes that the daemon has not read
    queue = 10000,      -- messages that wait for another node
    processes = 10000,  -- processes that one request may make
}
