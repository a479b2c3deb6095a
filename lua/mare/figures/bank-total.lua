-- SPDX-License-Identifier: MIT
-- The same account by totally ordered multicast: both copies end equal, with 1,111
local account = require "mare._account"

return account {
    title = "Totally ordered multicast keeps the copies equal (Tanenbaum and Van Steen, 6.2.1)",
    text = [[
The same two updates as in bank-unordered, stamped with Lamport's clocks. A copy puts what it
receives in a queue in the order of the stamps and acknowledges it to all. The head of the queue
is delivered when everybody has acknowledged it: then nothing can come any more that belongs
before it.]],
    algorithm = "total",
    notes = {
        {1000, "Both updates have the stamp 1. Equal stamps go by the process number: 1.0 "
            .. "(SF) comes before 1.1 (NY), here and there."},
        {2000, "Each copy acknowledges what came. New York can deliver the deposit: San "
            .. "Francisco sent it, New York acknowledges it itself, and its own update is "
            .. "later. San Francisco must wait: for all it knows, New York could have sent "
            .. "something earlier."},
        {3000, "The acknowledgements arrive, and both copies have done the same in the same "
            .. "order."},
    },
}
