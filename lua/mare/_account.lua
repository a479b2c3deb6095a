-- SPDX-License-Identifier: MIT
-- The bank of the figures bank-unordered, bank-total and bank-acks: an account of 1,000 with two
-- copies, a deposit of 100 made in one city and 1 % of interest added in the other.
local apply = {
    deposit = function(balance) return balance + 100 end,
    interest = function(balance) return balance + balance // 100 end,
}

local function with_commas(number)
    return (tostring(number):reverse():gsub("(%d%d%d)(%d)", "%1,%2"):reverse())
end

--- Completes a scenario: the processes, who updates what and when, and what the copies have at the
--- end.
return function(figure)
    figure.n = 2
    figure.names = {[0] = "SF", "NY"}
    figure.params = figure.params or {repair = 0}
    figure.network = {delay = "fixed", delay_us = 1000}
    figure.requests = {
        {0, "multicast", data = "deposit", at_us = 1000},
        {1, "multicast", data = "interest", at_us = 1000},
    }
    function figure.see(event, seen)
        if event.what == "deliver" then
            seen[event.process] = apply[event.data](seen[event.process] or 1000)
        end
    end
    function figure.report(outcome)
        local sf, ny = outcome.seen[0], outcome.seen[1]
        return ("balance   SF %s, NY %s: %s"):format(with_commas(sf), with_commas(ny),
            sf == ny and "equal" or "the copies differ")
    end
    return figure
end
