-- SPDX-License-Identifier: MIT
-- Which acknowledgements are unnecessary: the two updates of the bank acknowledge each other
local account = require "mare._account"

return account {
    title = "Total order without the acknowledgements that say nothing new",
    text = [[
The clock of a process only grows. Who has sent anything with the stamp of a message or a later
one can send nothing earlier any more: that is all that an acknowledgement says. Here each copy
has such a message from the other, the other's update, and so two messages are enough where
bank-total takes four.]],
    algorithm = "total",
    params = {repair = 0, acks = 0},
    notes = {
        {2000, "Each has something from the other that is not earlier than either update: "
            .. "deliver."},
    },
}
