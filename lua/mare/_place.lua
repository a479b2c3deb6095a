-- SPDX-License-Identifier: MIT
-- `mare place agent` and `mare place ask`, on the module mare.agent: what they print.
-- src/cli/place.c has checked the form of the options.
local mare, agent, place = require "mare", require "mare.agent", require "mare.place"
local net, address_of, arguments = require "mare.net", require "mare._address",
    require "mare._arguments"

local PEERS = 64

local function fail(code, ...) arguments.fail("place", code, ...) end

-- ---- What is printed ----------------------------------------------------------------------------

local function place_text(there, json)
    local numbers = {}
    for i, x in ipairs(there) do numbers[i] = (json and "%.6f" or "%.3f"):format(x) end
    return (json and '{"x":[%s],"height":%.6f,"error":%.4f}'
        or "(%s) ms, height %.3f ms, error %.3f"):format(
        table.concat(numbers, json and "," or ", "), there.height, there.error)
end

local function peer_text(peer, json)
    local address = arguments.address(peer.host, peer.port)
    if json then
        return ('{"address":"%s","measured_ms":%.4f,"estimated_ms":%.4f,"answers":%d,"silent":%d}')
            :format(address, peer.measured, peer.estimated, peer.answers, peer.silent)
    end
    return ("  %-24s %9.3f %10.3f %8d\n"):format(address, peer.measured, peer.estimated,
        peer.answers)
end

local function print_session(one, json)
    local probes, answers, ignored = one:counts()
    local peers = {}
    for i, peer in ipairs(one:peers()) do peers[i] = peer_text(peer, json) end
    io.write((json
        and '{"address":"%s","probes":%d,"answers":%d,"ignored":%d,"place":%s,"peers":[%s]}\n'
        or "%s: %d probes, %d answers, %d packets ignored\n%s\n\n"
        .. "  peer                      measured  estimated  answers\n%s"):format(
        arguments.address(one:address()), probes, answers, ignored, place_text(one:here(), json),
        table.concat(peers, json and "," or "")))
end

-- ---- The commands -------------------------------------------------------------------------------

-- Where an agent listens.
local function listening(text)
    local host, port = address_of(text, nil, true)
    if not host then fail(2, "%s: %s", text, port) end
    return host, port
end

-- The peers. They are checked before the agent says that it listens.
local function peers_of(given)
    for i, peer in ipairs(given or {}) do
        if i > PEERS or not address_of(peer) then
            fail(2, "--peer cannot be '%s'; 'mare help place' tells more", peer)
        end
    end
    for _, peer in ipairs(given or {}) do
        local found, message = net.resolve((address_of(peer)))
        if not found then fail(1, "%s: %s", peer, message) end
    end
    return given
end

local function run_agent(words, options, all)
    local ended = arguments.ending()
    local text, json = words[2], options["--json"]
    local host, port = listening(text)
    local hold = tonumber(options["--hold"] or 0) / 1000
    local one, message = agent.open(host, port, {
        peers = peers_of(all["--peer"]), interval = tonumber(options["--interval"] or 1000) / 1000,
        dimensions = tonumber(options["--dimensions"]), hold = hold > 0 and hold or nil,
    })
    if not one then fail(1, "%s: %s", text, message) end
    io.stderr:write(("listening at %s\n"):format(arguments.address(one:address())))
    mare.go(one.run, one)
    local over = mare.channel()
    mare.go(function()
        ended()
        over:close()
    end)
    over:receive(tonumber(options["--for"]))
    print_session(one, json)
    os.exit(0)
end

-- Asks one agent, and prints its place.
local function ask(text)
    local host, why = address_of(text)
    if not host then fail(2, "%s: %s", text, why) end
    local there, message, code = agent.ask(text)
    if there then return there end
    fail(1, "%s: %s", text, (code == "timeout" or code == "refused") and "no answer" or message)
end

local function run_ask(words, options)
    local json = options["--json"]
    for i = 2, #words do -- a wrong address is wrong usage, even if others answer
        local host, why = address_of(words[i])
        if not host then fail(2, "%s: %s", words[i], why) end
    end
    local first = ask(words[2])
    if not words[3] then
        print(place_text(first, json))
        return
    end
    local second = ask(words[3])
    if #first ~= #second then
        fail(1, "%s: has a place in another number of dimensions", words[3])
    end
    print((json and '{"estimated_ms":%.4f}' or "estimated %.3f ms"):format(
        place.distance(first, second)))
end

--- Runs `mare place WORD ...`.
return function(...)
    local words, options, all = arguments.read({["--json"] = true}, ...)
    if words[1] == "agent" then return run_agent(words, options, all) end
    return run_ask(words, options)
end
