-- SPDX-License-Identifier: MIT
-- `mare --inspect PATH`: a background process that tells, over a Unix-domain socket, what the
-- program is doing. Each line sent to it is a question; each answer is a line of JSON.
local mare, net, json = require "mare", require "mare.net", require "mare.json"
local file = require "mare.file"

-- Makes room for the socket: removes one that a dead program left, at which nobody listens. Returns
-- what else stands in the way, if anything does.
local function in_the_way(path)
    local stat = file.stat(path, {follow = false})
    if not stat then return end
    if stat.kind ~= "socket" then
        return ("there is a %s of that name; --inspect makes a socket, and replaces only a socket")
            :format(stat.kind)
    end
    local stream, _, code = net.connect(path, nil, 1)
    if stream then
        stream:close()
        return "another program listens at this socket"
    end
    if code == "refused" then os.remove(path) end
end

local function answer(stream, self)
    while stream:read "l" do
        local processes = {}
        for _, row in ipairs(mare.processes()) do
            if row.id ~= self then processes[#processes + 1] = row end
        end
        if not stream:write(json.encode {time = mare.now(), stats = mare.stats(),
            processes = processes, channels = mare.channels()}, "\n") then
            return
        end
    end
end

return function(path)
    if not path:find "^[/.]" then path = "./" .. path end
    local obstacle = in_the_way(path)
    if obstacle then return obstacle end
    local listener, why = net.listen(path, nil)
    if not listener then return why end
    file.chmod(path, 384) -- only the owner may use it: 0600
    mare.spawn({_background = true}, function()
        local _ <close> = setmetatable({}, {__close = function() os.remove(path) end})
        net.serve(listener, answer, mare.self():id())
    end)
end
