-- SPDX-License-Identifier: MIT
-- `mare --inspect PATH`: a background process that tells, over a Unix-domain socket, what the
-- program is doing. Each line sent to it is a question; each answer is a line of JSON.
local mare, net, json = require "mare", require "mare.net", require "mare.json"
local file = require "mare.file"

-- A program that died left its socket file, at which nobody listens: remove it.
local function remove_stale(path)
    local stat = file.stat(path)
    if stat and stat.kind == "socket" then
        local stream, _, code = net.connect(path, nil, 1)
        if stream then
            stream:close()
        elseif code == "refused" then
            os.remove(path)
        end
    end
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
    remove_stale(path)
    local listener, why = net.listen(path, nil)
    if not listener then return why end
    file.chmod(path, 384) -- only the owner may use it: 0600
    mare.spawn({_background = true}, function()
        local _ <close> = setmetatable({}, {__close = function() os.remove(path) end})
        net.serve(listener, answer, mare.self():id())
    end)
end
