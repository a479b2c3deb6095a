-- SPDX-License-Identifier: MIT
-- `mare node`, on the module mare.node: options from a file, the environment and the command line,
-- then the program, or none.
local mare, node = require "mare", require "mare.node"
local arguments = require "mare._arguments"

-- What can be set, and what becomes of the text.
local function as_number(text) return tonumber(text) or text end
local function as_list(text)
    local list = {}
    for word in text:gmatch "[^%s,]+" do list[#list + 1] = word end
    return list
end
local function as_is(text) return text end
local YES = {[true] = true, ["true"] = true, yes = true, ["1"] = true}
local function as_flag(text) return YES[text] == true end
local OPTIONS = {name = as_is, listen = as_is, address = as_is, join = as_list, keys = as_is,
    secret = as_is, insecure = as_flag, guests = as_flag, group = as_is, allow = as_list,
    code = as_is, memory = as_number, silence = as_number, message = as_number}
local FLAGS = {["--insecure"] = true, ["--guests"] = true, ["--json"] = true}

local function fail(code, ...) arguments.fail("node", code, ...) end

local function set(options, name, value, where)
    if not OPTIONS[name] then
        fail(2, "%s: there is no option '%s'; 'mare help node' lists them", where, name)
    end
    options[name] = OPTIONS[name](value)
end

-- Lines `option = value`; what follows a # is a comment.
local function read_file(options, path)
    local file, message = io.open(path)
    if not file then fail(1, "%s", message) end
    local number = 0
    for line in file:lines() do
        number = number + 1
        line = line:gsub("#.*", "")
        local name, value = line:match "^%s*([%w_]+)%s*=%s*(.-)%s*$"
        if name then
            set(options, name, value, ("%s:%d"):format(path, number))
        elseif line:find "%S" then
            fail(2, "%s:%d: a line is 'option = value'", path, number)
        end
    end
    file:close()
end

local function split(...)
    local given, i = {...}, 1
    while i <= #given and given[i]:sub(1, 2) == "--" do
        local word = given[i]
        if not FLAGS[word] then
            local name = word:sub(3)
            if word ~= "--config" and not OPTIONS[name] then
                fail(2, "there is no option '%s'; 'mare help node' lists them", word)
            end
            if not given[i + 1] then fail(2, "there is no value for '%s'", word) end
            i = i + 1
        end
        i = i + 1
    end
    return {table.unpack(given, 1, i - 1)}, {table.unpack(given, i)}
end

local function gather(given)
    local _, last, all = arguments.read(FLAGS, table.unpack(given))
    local options = {}
    local path = last["--config"] or os.getenv "MARE_NODE_CONFIG"
    if path then read_file(options, path) end
    for name in pairs(OPTIONS) do
        local value = os.getenv("MARE_NODE_" .. name:upper())
        if value then set(options, name, value, "the environment") end
    end
    for word, value in pairs(last) do
        local name = word:sub(3)
        if OPTIONS[name] == as_list then value = table.concat(all[word], ",") end
        if OPTIONS[name] then set(options, name, value, "the command line") end
    end
    return options, last["--json"]
end

-- ---- What is printed ----------------------------------------------------------------------------

local function say(json, what, fields)
    local parts = {}
    for _, pair in ipairs(fields) do
        if pair[2] ~= nil then
            parts[#parts + 1] = json
                and ("%s:%s"):format(arguments.quoted(pair[1]), arguments.quoted(pair[2]))
                or pair[2]
        end
    end
    if json then io.stdout:write(("{\"event\":%s,%s}\n"):format(arguments.quoted(what),
        table.concat(parts, ",")))
    else io.stderr:write(("mare node: %s %s\n"):format(what, table.concat(parts, " "))) end
    io.stdout:flush()
end

return function(...)
    local given, program = split(...)
    local options, json = gather(given)
    local log = mare.channel(100)
    options.log = log
    local ending = #program == 0 and arguments.ending()
    local ok, address, message = pcall(node.start, options)
    if not ok then fail(2, "%s", tostring(address):gsub("^.-%((.*)%)$", "%1")) end
    if not address then fail(1, "%s", message) end
    if options.insecure then
        io.stderr:write("mare node: WARNING: --insecure: whoever reaches this node can use it\n")
    end
    mare.go(function()
        for text in log:messages() do say(json, "log", {{"text", text}}) end
    end)
    if #program > 0 then
        local chunk, why = loadfile(program[1])
        if not chunk then fail(1, "%s", why) end
        local names = {}
        for i, word in ipairs(program) do names[i - 1] = word end
        arg = names -- luacheck: ignore
        chunk(table.unpack(program, 2))
    else
        say(json, "up", {{"name", options.name}, {"address", address ~= true and address or nil}})
        local watch = node.monitor()
        mare.go(function()
            for what, name, why in watch:messages() do
                say(json, what, {{"node", name}, {"why", why}})
            end
        end)
        ending()
    end
    node.stop(5)
    log:close()
    if #program == 0 then os.exit(0) end
end
