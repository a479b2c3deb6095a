-- SPDX-License-Identifier: MIT
-- Sends a request of HTTP/1.1. A long one is sent in a routine of its own, while the caller waits
-- for the answer. For a server may answer before it has the whole body: with an error, or with what
-- it makes of the first parts. If nobody read that, both sides could wait for each other.
local mare, bodies = require "mare", require "mare.http._body"

local Sending = {}
Sending.__index = Sending

local has_routines = pcall(mare._needs_routines, "request")

local LONG <const> = 65536 -- what is shorter the system takes at once, or soon

-- Writes the request: true, or nil, message, code.
local function write(stream, wanted)
    local text = not wanted.parts and wanted.body or ""
    local ok, message, code = bodies.write(stream, wanted.deadline, wanted.head, text, "")
    if not ok or not wanted.parts then return ok, message, code end
    return bodies.write_parts(stream, wanted.body, wanted.length, wanted.deadline, wanted.rest)
end

-- Notes how it went. After a failure, whoever waits for the answer learns of it by the end of the
-- stream; unless the peer has closed, and may have answered before.
local function note(self, good, ok, message, code)
    self.over, self.at, self.whole = true, mare.now(), good and ok or false
    self.message, self.code = message, code
    if not good then self.raised = {error = ok} end
    if not self.whole and (not good or code ~= "closed") then self.stream:close() end
end

local function work(self, wanted, closer)
    local _ <close> = closer
    note(self, pcall(write, self.stream, wanted))
    if self.raised and self.answered then error(self.raised.error, 0) end -- nobody else hears of it
end

--- Begins to send a request. Returns what knows how it goes: `over`; `whole`, whether all was sent;
--- or `message` and `code`; `raised`, if the function that makes the body has raised an error.
local function begin(stream, wanted)
    local self = setmetatable({stream = stream, over = false}, Sending)
    if not has_routines or not wanted.parts and #(wanted.body or "") <= LONG then
        self.over, self.at = true, mare.now()
        self.whole, self.message, self.code = write(stream, wanted)
        return self
    end
    local closer = bodies.closer(wanted.closer.body)
    wanted.closer.body = nil -- the routine closes it
    self.routine = mare.go(work, self, wanted, closer)
    return self
end

--- The seconds that the answer still has, after it has not come for so long: they are counted from
--- when all was sent. A write has its own time. nil: none.
function Sending:patience(time)
    if type(time) ~= "number" then return nil end -- a deadline is for all of it
    if not self.over then return time end
    local left = self.at + time - mare.now()
    return left > 0 and left or nil
end

--- Nobody wants the rest of it to be sent; the stream is closed.
function Sending:stop()
    if not self.over then self.routine:cancel() end
end

return {begin = begin}
