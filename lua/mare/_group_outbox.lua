-- SPDX-License-Identifier: MIT
-- What one member of a group says to another. A message goes at once if the link can take it.
-- Otherwise it waits in a queue, and a routine sends it as soon as that is possible. What cannot be
-- sent in time is lost: machines ask again.
--
--     send ──▶ link                       usually
--     send ──▶ queue ──▶ routine ──▶ link  while the other member is away, or slow
local mare = require "mare"

local SIZE = 256 -- messages for a member that may be away

local outbox = {patience = 1} -- seconds to send one
outbox.__index = outbox

-- Sends what waits in the queue. Returns false when the queue is closed and empty.
local function send_next(self, kind, ...)
    if not kind then return false end
    self.channel = self.channel or mare.find(self.address, outbox.patience)
    if self.channel
        and not self.channel:sendwithin(outbox.patience, self.here, self.digest, kind, ...) then
        self.channel = nil
    end
    self.waiting = self.waiting - 1
    return true
end

--- For the inbox `address`. Each message begins with the name of this member and its digest. What
--- is still queued from an earlier generation is sent with that generation's digest.
function outbox.new(address, here, digest)
    local self = setmetatable({address = address, here = here, digest = digest, waiting = 0,
        queue = mare.channel(SIZE)}, outbox)
    mare.go(function() while send_next(self, self.queue:receive()) do end end):detach()
    return self
end

--- Sends a message: what kind it is, a string, and what belongs to it. It never overtakes one that
--- waits.
function outbox:send(...)
    local link = self.waiting == 0 and self.channel
    if link and link:trysend(self.here, self.digest, ...) then return end
    if self.queue:trysend(...) then self.waiting = self.waiting + 1 end
end

--- Whether many messages wait unsent.
function outbox:busy() return self.waiting > SIZE // 2 end

--- Takes no more messages. Those that wait are still sent.
function outbox:close()
    self.channel = nil
    self.queue:close()
end

return outbox
