-- SPDX-License-Identifier: MIT
-- Supervisors: processes that start others, are told when they end, and start them again by rules.
--
--     caller --requests--> supervisor --gate--> child     (it may begin: it is written down)
--                              ^------news------'          (a monitor: how it ended)
--
-- A child never runs without its supervisor. It begins only when the supervisor has put it on its
-- list (`gate`). Whatever ends the supervisor, even a kill, runs a <close> handler that kills all
-- children on the list and closes the gate.
--
-- Children may run on any node: a child's `spawn` options are passed to mare.spawn unchanged. A
-- child and its supervisor share only channels and the child's reference.
local mare, checks, show = require "mare", require "mare._check", require "mare._show"

local supervisor = {}

local FIRST_RESULT = "the supervisor has ended"
local strategies = checks.set("one_for_one", "one_for_all", "rest_for_one")
local restarts = checks.set("permanent", "transient", "temporary")
local options_known = checks.set("name", "link", "strategy", "intensity", "period", "patience",
    "children", "report")
local child_known = checks.set("id", "start", "args", "restart", "shutdown", "ready", "spawn")

-- ---- Checks -------------------------------------------------------------------------------------

local function is_count(value) return math.type(value) == "integer" and value >= 0 end

local function is_wait(value) return type(value) == "number" and value >= 0 end

local function is_start(value)
    return type(value) == "function" or type(value) == "string"
end

-- A copy of a child's description, with defaults filled in. Errors name the caller's line: the
-- level is that of `error` in a function that this one calls. `place` stands for a missing id.
local function checked_child(name, index, child, level, place)
    checks.argument(name, child, index, "table", level)
    checks.options(name, child, index, child_known, level)
    local function option(...) checks.option(name, child, index, ...) end
    option("id", function(id) return type(id) == "string" or is_count(id) end,
        "a string or a whole number", level + 1)
    local who = ("child '%s'"):format(child.id or place)
    if child.start == nil then
        error(("bad argument #%d to '%s' (%s needs 'start')"):format(index, name, who), level - 1)
    end
    option("start", is_start, "a function, a string of Lua or the name of a file", level + 1)
    option("args", "table", "a list of arguments", level + 1)
    option("restart", function(rule) return restarts[rule] end,
        "'permanent', 'transient' or 'temporary'", level + 1)
    option("shutdown", is_wait, "a number of seconds", level + 1)
    option("ready", checks.span, "a number of seconds above 0", level + 1)
    option("spawn", "table", "a table of options for mare.spawn", level + 1)
    if child.spawn and child.spawn.monitor then
        error(("bad argument #%d to '%s' (%s: only its supervisor can have the channel of "
            .. "'monitor': give the supervisor 'report')"):format(index, name, who), level - 1)
    end
    local copy = {restart = "permanent", shutdown = 0, args = {}, spawn = {}}
    for key, value in pairs(child) do copy[key] = value end
    if type(copy.start) == "string" then
        local body, message = load(copy.start)
        if not body and copy.start:find "^[^\n]+%.lua$" then
            body, message = loadfile(copy.start)
        end
        if not body then error(("%s: %s"):format(who, message), level - 1) end
        copy.start = body
    end
    return copy
end

local function is_list(value)
    local count = 0
    for _ in pairs(type(value) == "table" and value or {}) do count = count + 1 end
    return type(value) == "table" and count == #value
end

local function checked(name, options, level)
    checks.argument(name, options, 1, "table", level)
    checks.options(name, options, 1, options_known, level)
    local function option(...) checks.option(name, options, 1, ...) end
    option("strategy", function(strategy) return strategies[strategy] end,
        "'one_for_one', 'one_for_all' or 'rest_for_one'", level + 1)
    option("intensity", is_count, "a whole number, 0 or more", level + 1)
    option("period", checks.span, "a number of seconds above 0", level + 1)
    option("patience", is_wait, "a number of seconds", level + 1)
    option("children", is_list, "a list", level + 1)
    option("name", "string", "a string", level + 1)
    option("link", "boolean", "a boolean", level + 1)
    option("report", "function", "a function", level + 1)
    local copy = {strategy = "one_for_one", intensity = 3, period = 5, patience = 5}
    for key, value in pairs(options) do copy[key] = value end
    copy.children = {}
    for i, child in ipairs(options.children or {}) do
        if type(child) ~= "table" then
            error(("bad argument #1 to '%s' (children[%d]: a table with 'start' expected, got %s)")
                :format(name, i, type(child)), level - 1)
        end
        copy.children[i] = checked_child(name, 1, child, level + 1, i)
    end
    return copy
end

-- ---- In a child ---------------------------------------------------------------------------------

local mine = {} -- channels to this process's supervisor, if it has one

-- Runs first in a child.
function supervisor._enter(gate, readiness, asked, start, ...)
    if not gate:receive() then return end -- the supervisor has ended
    mine = {readiness = readiness, asked = asked}
    return start(...)
end

--- In a child with `ready`: says that it has started, so that the next child may. Returns whether a
--- supervisor was told.
function supervisor.ready()
    return mine.readiness ~= nil and mine.readiness:trysend(true) == true
end

--- In a child with `shutdown`: a channel that is closed when it is asked to end. Nil elsewhere.
function supervisor.asked() return mine.asked end

local function enter(...) return require "mare.supervisor"._enter(...) end

-- ---- Starting and ending children ---------------------------------------------------------------

-- What a supervisor knows of its children:
--   order, top   those written down, in the order of their start: their places up to the top
--   holes        how many of these places are false, because their child was forgotten
--   by_id, by_process   the same children; in the second, those that run
local Supervisor = {}
Supervisor.__index = Supervisor

function Supervisor:put(child)
    self.top = self.top + 1
    self.order[self.top], child.place = child, self.top
    self.by_id[child.id] = child
end

-- Forgets a child. When half of the places are empty, closes the gaps.
function Supervisor:forget(child)
    self.order[child.place] = false
    self.by_id[child.id] = nil
    self.holes = self.holes + 1
    if 2 * self.holes <= self.top then return end
    local order = self:list(1)
    self.order, self.top, self.holes = order, #order, 0
    for place, one in ipairs(order) do one.place = place end
end

-- The children from a place on.
function Supervisor:list(place)
    local list = {}
    for i = place, self.top do list[#list + 1] = self.order[i] or nil end
    return list
end

-- Used if the program gives no function.
local function report_to_log(event)
    require "mare.log".new("mare.supervisor").warn("child " .. event.what, {child = event.child,
        error = event.error, restarts = event.restarts, supervisor = event.supervisor})
end

function Supervisor:tell(what, child, err)
    local event = {what = what, child = child.id, error = err, restarts = child.restarts,
        supervisor = self.name}
    local ok, message = pcall(self.report, event)
    if not ok then
        event.what, event.error = "could not be reported", message
        report_to_log(event)
    end
end

-- Lets a child begin, and waits until it says that it is ready. True; or nil, why.
local function let_begin(self, child)
    local process = child.process
    if mare.select({{self.gate, true}, process}) ~= 1 then return nil, "it ended at once" end
    if not child.ready then return true end
    local which, a, b, c = mare.select({child.readiness, process}, child.ready)
    if which == 1 or which == 2 and child.readiness:tryreceive() then return true end
    if which == nil then return nil, ("not ready after %g s"):format(child.ready) end
    if a then return nil, "it ended before it was ready" end
    return nil, c == "killed" and "it was killed before it was ready" or b
end

-- Starts a child. True; or nil, why, and it does not run.
function Supervisor:start(child)
    local options = {}
    for key, value in pairs(child.spawn) do options[key] = value end
    options.monitor = self.news
    child.asked = child.shutdown > 0 and mare.channel() or nil
    child.readiness = child.ready and mare.channel(1) or nil
    local args = child.args
    local ok, process, message = pcall(mare.spawn, options, enter, self.gate, child.readiness,
        child.asked, child.start, table.unpack(args, 1, args.n or #args))
    if not ok or not process then
        child.process = nil
        return nil, ok and message or process
    end
    child.process, child.since = process, mare.now()
    self.by_process[process] = child
    local begun, why = let_begin(self, child)
    if not begun then self:finish(child) end
    return begun, why
end

-- Ends a child: asks it first, if it has `shutdown`, and kills it after its time. A child that
-- cannot even be killed (it is in a C function) is left behind.
function Supervisor:finish(child)
    local process = child.process
    if not process then return end
    if child.asked and process:alive() then
        child.asked:close()
        process:join(child.shutdown)
    end
    process:kill(FIRST_RESULT)
    local _, _, code = process:join(self.patience)
    if code == "timeout" then self:tell("does not end, and is left behind", child) end
    self.by_process[process] = nil
    child.process = nil
end

-- Ends the children from a place on, the last one first.
function Supervisor:finish_from(place)
    for i = self.top, place, -1 do
        if self.order[i] then self:finish(self.order[i]) end
    end
end

-- ---- Starting them again ------------------------------------------------------------------------

-- Whether one more restart is allowed now.
function Supervisor:may_restart()
    local now, times = mare.now(), self.times
    self.newest = self.newest + 1
    times[self.newest] = now
    while times[self.oldest] < now - self.period do
        times[self.oldest] = nil
        self.oldest = self.oldest + 1
    end
    return self.newest - self.oldest < self.intensity
end

-- Starts the children of a list that do not run, in order. False, and the child, if one failed.
function Supervisor:start_all(list)
    for _, child in ipairs(list) do
        if not child.process then
            local ok, why = self:start(child)
            if not ok then
                child.last = why
                return false, child, why
            end
        end
    end
    return true
end

-- The children that the strategy restarts together with this one, in order. Ends those that run,
-- and forgets those that are never restarted.
function Supervisor:company(child)
    if self.strategy == "one_for_one" then return {child} end
    local first, company = self.strategy == "one_for_all" and 1 or child.place, {}
    self:finish_from(first)
    for _, one in ipairs(self:list(first)) do
        if one.restart == "temporary" then
            self:forget(one)
        else
            company[#company + 1] = one
        end
    end
    return company
end

-- Restarts a child, and the others by the strategy, until all run. Raises an error if there were
-- too many restarts.
function Supervisor:restart(child, err)
    local done
    repeat
        if not self:may_restart() then
            self:finish_from(1)
            error(("too many restarts: more than %d within %g seconds; the last is of child '%s'%s")
                :format(self.intensity, self.period, child.id, err ~= nil and ": "
                .. (type(err) == "string" and err or show(err)) or ""), 0)
        end
        local list = self:company(child)
        for _, one in ipairs(list) do one.restarts = one.restarts + 1 end
        self:tell("restarts", child, err)
        done, child, err = self:start_all(list)
    until done
end

-- A child has ended by itself.
function Supervisor:ended(child, how, err)
    self.by_process[child.process] = nil
    child.process = nil
    child.last = how == "normal" and "normal" or how == "killed" and "killed" or err
    if child.restart == "permanent" or child.restart == "transient" and how ~= "normal" then
        return self:restart(child, how == "died" and err or how)
    end
    if how ~= "normal" then self:tell(how, child, err) end
    if child.restart == "temporary" then self:forget(child) end
end

-- ---- Requests -----------------------------------------------------------------------------------

local requests = {}

function requests.children(self)
    local list = {}
    for i, child in ipairs(self:list(1)) do
        list[i] = {id = child.id, up = child.process ~= nil, process = child.process,
            restarts = child.restarts, last = child.last, restart = child.restart,
            since = child.process and child.since or nil}
    end
    return list
end

function requests.find(self, id)
    local child = self.by_id[id]
    if not child then return nil, ("there is no child '%s'"):format(id), "noname" end
    if not child.process then return nil, ("child '%s' does not run"):format(id), "closed" end
    return child.process
end

-- Puts a child at the end of the list.
function Supervisor:write_down(child)
    if child.id == nil then
        repeat self.last_id = self.last_id + 1 until not self.by_id[self.last_id]
        child.id = self.last_id
    elseif self.by_id[child.id] then
        return nil, ("there is a child '%s' already"):format(child.id), "exists"
    end
    child.restarts = 0
    self:put(child)
    return true
end

function requests.add(self, child)
    local ok, message, code = self:write_down(child)
    if not ok then return nil, message, code end
    ok, message = self:start(child)
    if ok then return child.process, child.id end
    self:forget(child)
    return nil, message, "died"
end

function requests.remove(self, id)
    local child = self.by_id[id]
    if not child then return nil, ("there is no child '%s'"):format(id), "noname" end
    self:finish(child)
    self:forget(child)
    return true
end

function requests.restart(self, id)
    local child = self.by_id[id]
    if not child then return nil, ("there is no child '%s'"):format(id), "noname" end
    self:finish(child)
    child.restarts = child.restarts + 1
    local ok, why = self:start(child)
    if ok then return child.process end
    child.last = why
    return nil, why, "died"
end

function requests.stop(self)
    self.over = true
    return true
end

-- ---- The supervisor's own process ---------------------------------------------------------------

local function new(options, inbox)
    local self = setmetatable({order = {}, top = 0, holes = 0, by_id = {}, by_process = {},
        times = {}, oldest = 1, newest = 0, last_id = 0, -- times of restarts; the last number
        news = mare.channel(64), gate = mare.channel(), requests = inbox}, Supervisor)
    for _, key in ipairs {"name", "strategy", "intensity", "period", "patience"} do
        self[key] = options[key]
    end
    self.report = options.report or report_to_log
    return self
end

-- Runs whatever ends the supervisor: must not wait.
Supervisor.__close = function(self)
    self.gate:close()
    self.requests:close()
    for i = self.top, 1, -1 do
        local process = self.order[i] and self.order[i].process
        if process then process:kill(FIRST_RESULT) end
    end
end

function Supervisor:begin(children)
    for _, child in ipairs(children) do
        local ok, message, code = self:write_down(child)
        if not ok then return nil, message, code end
    end
    local ok, child, why = self:start_all(children)
    if ok then return true end
    self:finish_from(1)
    return nil, ("child '%s' did not start: %s"):format(child.id, type(why) == "string" and why
        or show(why)), "died"
end

function Supervisor:serve()
    local asked = supervisor.asked()
    repeat
        local which, a, b, c = mare.select {self.requests, self.news, asked}
        if which == 1 then
            local results = table.pack(requests[a](self, c))
            if a == "stop" then self:finish_from(1) end
            b:trysend(table.unpack(results, 1, results.n))
        elseif which == 2 and self.by_process[a] then
            self:ended(self.by_process[a], b, c)
        elseif which == 3 then
            self.over = true
        end
    until self.over
    self:finish_from(1)
    return true
end

function supervisor._run(options, inbox, started)
    local self <close> = new(options, inbox)
    local ok, message, code = self:begin(options.children)
    started:trysend(ok, message, code)
    if ok then return (self:serve()) end -- no tail call: a look at the process finds where it waits
end

-- ---- What programs call -------------------------------------------------------------------------

--- Becomes a supervisor: returns true when it was asked to end, or nil, message, code when a child
--- did not start. For a process that is one, as a supervisor among the children of another.
function supervisor.run(options)
    options = checked("run", options, 4)
    local self <close> = new(options, mare.channel())
    local ok, message, code = self:begin(options.children)
    if not ok then return nil, message, code end
    supervisor.ready()
    return (self:serve())
end

local Handle = {__name = "supervisor"}
Handle.__index = Handle
Handle.__travel = function(self)
    return "mare.supervisor", {process = self.process, requests = self.requests}
end

function supervisor.arrive(value) return setmetatable(value, Handle) end

local function run(...) return (require "mare.supervisor"._run(...)) end

-- The answer of a supervisor. An answer that came before its end counts, even if the end is seen
-- first.
local function answer(reply, process, deadline)
    local function got(which, ...)
        if which == 1 then return ... end
        if which == nil then return nil, ... end -- timeout
        local late = table.pack(reply:tryreceive())
        if late[3] ~= "empty" then return table.unpack(late, 1, late.n) end
        return nil, FIRST_RESULT, "closed"
    end
    return got(mare.select({reply, process}, deadline))
end

-- The results of a call that was given a value of the program. If that value cannot be sent, the
-- error names the program's line, not one in this file.
local function taken(name, ok, ...)
    if ok then return ... end
    local why = tostring((...)):gsub("^mare%.supervisor:%d+: ", ""):gsub("^arg %d+, ", "")
    checks.blame(("bad argument #1 to '%s' (%s)"):format(name, why))
end

--- Starts a supervisor and its children. Returns what can be asked of it, or nil, message, code.
function supervisor.start(options)
    options = checked("start", options, 4)
    local inbox, started = mare.channel(), mare.channel(1)
    local process, message, code = taken("start", pcall(mare.spawn, {name = options.name,
        link = options.link or false}, run, options, inbox, started))
    if not process then return nil, message, code end
    local ok
    ok, message, code = answer(started, process)
    if ok then return setmetatable({process = process, requests = inbox}, Handle) end
    process:join()
    return nil, message, code
end

local function ask(self, timeout, what, argument)
    checks.self(what, self, Handle)
    local deadline, reply = checks.deadline(what, timeout, argument and 3 or 2), mare.channel(1)
    local ok, message, code = taken(what, pcall(self.requests.sendwithin, self.requests, deadline,
        what, reply, argument))
    if not ok then
        if code == "closed" then message = FIRST_RESULT end
        return nil, message, code
    end
    return answer(reply, self.process, deadline)
end

--- A list of its children in the order of their start: id, up, process, restarts, last, restart,
--- since.
function Handle:children(timeout) return ask(self, timeout, "children") end

--- The process of a child that runs.
function Handle:find(id, timeout) return ask(self, timeout, "find", id) end

--- Starts one more child, the last. Returns its process and its id.
function Handle:add(child, timeout)
    checks.self("add", self, Handle)
    return ask(self, timeout, "add", checked_child("add", 1, child, 4, "new"))
end

--- Ends a child and forgets it.
function Handle:remove(id, timeout) return ask(self, timeout, "remove", id) end

--- Ends a child and starts it again; that does not count.
function Handle:restart(id, timeout) return ask(self, timeout, "restart", id) end

--- Ends its children, the last first, and then itself.
function Handle:stop(timeout)
    checks.self("stop", self, Handle)
    local deadline = checks.deadline("stop", timeout, 2)
    local ok, message, code = ask(self, deadline, "stop")
    if not ok then return nil, message, code end
    return self.process:join(deadline)
end

--- Waits for its end, as of a process: it gives up when it has to restart children too often.
function Handle:join(timeout)
    checks.self("join", self, Handle)
    return self.process:join(timeout)
end

return supervisor
