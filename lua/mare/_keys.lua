-- SPDX-License-Identifier: MIT
-- `mare keys`, on the module mare.keys: its arguments, and what it prints.
local file, keys = require "mare.file", require "mare.keys"
local arguments = require "mare._arguments"
local quoted = arguments.quoted

local FLAGS = {["--json"] = true, ["--code"] = true, ["--replace"] = true}
local DAY = 86400

local function fail(code, ...) arguments.fail("keys", code, ...) end
local function refuse(what, word, known)
    fail(2, "%s '%s'; %s'mare help keys' tells more", what, word,
        known and arguments.near(word, known) or "")
end

-- ---- Printing -----------------------------------------------------------------------------------

local FIELDS = {"file", "use", "name", "subject", "issuer", "serial", "begins", "expires",
    "fingerprint", "problem", "signer", "revoked"}

local function json(entry)
    local parts = {}
    for _, field in ipairs(FIELDS) do
        local value = entry[field]
        if value ~= nil then
            parts[#parts + 1] = ("%s:%s"):format(quoted(field),
                type(value) == "number" and ("%d"):format(value) or quoted(value))
        end
    end
    if entry.names then
        local names = {}
        for i, name in ipairs(entry.names) do names[i] = quoted(name) end
        parts[#parts + 1] = ('"names":[%s]'):format(table.concat(names, ","))
    end
    return ("{%s}\n"):format(table.concat(parts, ","))
end

local function date(seconds) return os.date("!%Y-%m-%d", seconds) end

-- One line for an entry; its fingerprint gets a line of its own below.
local function text(entry)
    local name, more = entry.name or "-", {}
    if entry.names and #entry.names > 1 then
        more[1] = "for " .. table.concat(entry.names, ", ", 2)
    end
    if entry.problem then more[#more + 1] = "NOT GOOD: " .. entry.problem end
    local line = ("%-9s  %-34s  %-10s  %s"):format(entry.use or "-", name,
        entry.expires and date(entry.expires) or "-", table.concat(more, "; "))
    line = line:gsub("%s+$", "") .. "\n"
    return entry.fingerprint and ("%s           %s\n"):format(line, entry.fingerprint) or line
end

local function show(entry, options) io.write((options["--json"] and json or text)(entry)) end

-- Prints what was made; or ends the program with the message.
local function made(options, facts, message)
    if not facts then fail(1, "%s", message) end
    if options["--json"] then
        facts.name = facts.name or facts.names and facts.names[1] or facts.subject
        io.write(json(facts))
    else
        io.write(("%s\n  fingerprint %s\n"):format(facts.file, facts.fingerprint))
        if facts.expires then io.write(("  expires %s\n"):format(date(facts.expires))) end
    end
end

-- ---- Commands -----------------------------------------------------------------------------------

local commands = {}

function commands.authority(folder, words, options, days)
    made(options, keys.authority(folder, words[1], {days = days}))
end

function commands.issue(folder, words, options, days)
    made(options, keys.issue(folder, words[1], {days = days, code = options["--code"],
        hosts = table.move(words, 2, #words, 1, {})}))
end

function commands.rotate(folder, words, options, days)
    for _, name in ipairs(words) do made(options, keys.rotate(folder, name, {days = days})) end
end

function commands.retire(folder, _, options) made(options, keys.retire(folder)) end

function commands.revoke(folder, words, options)
    for _, name in ipairs(words) do
        local count, message = keys.revoke(folder, name)
        if not count then fail(1, "%s", message) end
        if options["--json"] then
            io.write(json {name = name, revoked = count, file = folder .. "/trusted.pem"})
        else
            io.write(("%s: %d revoked; give all nodes %s/trusted.pem\n"):format(name, count,
                folder))
        end
    end
end

function commands.secret(folder, words, options)
    made(options, keys.secret(folder, words[1], {replace = options["--replace"]}))
end

function commands.show(folder, words, options)
    local found = {}
    local function add(more, message)
        if not more then fail(1, "%s", message) end
        table.move(more, 1, #more, #found + 1, found)
    end
    if #words == 0 then add(keys.list(folder)) end
    local trusted, why, code = keys.trusted(folder)
    if not trusted and code ~= "noname" then fail(1, "%s", why) end
    for _, path in ipairs(words) do add(keys.look(path, trusted)) end
    local within, good = tonumber(options["--within"]), true
    for _, entry in ipairs(found) do
        if within and entry.expires and not entry.problem
            and entry.expires - os.time() < within * DAY then
            entry.problem = "it expires soon"
        end
        good = good and not entry.problem
        show(entry, options)
    end
    if not good then os.exit(1) end
end

function commands.sign(folder, words, options)
    for i = 2, #words do
        local path = words[i] .. ".sig"
        local code, message = file.read(words[i])
        if not code then fail(1, "%s", message) end
        local signature
        signature, message = keys.sign(folder, words[1], code)
        if not signature then fail(1, "%s", message) end
        local ok, why, failed = file.write(path, signature, {atomic = true,
            exclusive = not options["--replace"]})
        if failed == "exists" then fail(1, "%s: it exists already; use --replace", path)
        elseif not ok then fail(1, "%s", why) end
        io.write(options["--json"] and json {file = path, signer = words[1]} or path .. "\n")
    end
end

function commands.check(folder, words, options)
    local trusted, message = keys.trusted(folder)
    if not trusted then fail(1, "%s", message) end
    local good = true
    for _, path in ipairs(words) do
        local entry, signer, signature = {file = path}, nil, nil
        local code, why = file.read(path)
        if code then signature, why = file.read(path .. ".sig") end
        if signature then signer, why = keys.check(code, signature, trusted) end
        if signer then
            entry.signer, entry.expires, entry.fingerprint = signer.names[1], signer.expires,
                signer.fingerprint
        else
            entry.problem, good = why, false
        end
        io.write(options["--json"] and json(entry) or signer
            and ("%s: signed by %s\n"):format(path, entry.signer)
            or ("%s: NOT GOOD: %s\n"):format(path, why))
    end
    if not good then os.exit(1) end
end

-- ---- Arguments ----------------------------------------------------------------------------------

-- For each word: how many arguments it has at least and at most, and the message for too few.
local WORDS = {
    authority = {1, 1, "for which group? As in", "mare keys authority tides"},
    issue = {1, 61, "to whom? As in", "mare keys issue ebb 127.0.0.1"},
    rotate = {1, 1000, "whose? As in", "mare keys rotate ebb"},
    retire = {0, 0}, show = {0, 1000},
    revoke = {1, 1000, "whose? As in", "mare keys revoke ebb"},
    secret = {1, 1, "for whom? As in", "mare keys secret ebb"},
    sign = {2, 1000, "as whom, and which file? As in", "mare keys sign ana app.lua"},
    check = {1, 1000, "which file? As in", "mare keys check app.lua"},
}

-- The words to which each option belongs.
local OPTIONS = {["--folder"] = true, ["--json"] = true,
    ["--days"] = {authority = true, issue = true, rotate = true}, ["--code"] = {issue = true},
    ["--replace"] = {secret = true, sign = true}, ["--within"] = {show = true}}

local function check_options(command, given)
    local i = 2
    while i <= #given do
        local word = given[i]
        if word:sub(1, 1) == "-" then
            local mine, value = OPTIONS[word], given[i + 1]
            if not mine then refuse("there is no option", word, OPTIONS) end
            if mine ~= true and not mine[command] then
                fail(2, "%s is not for %s; 'mare help keys' tells more", word, command)
            end
            if not FLAGS[word] then
                if not value then refuse("there is no value for", word) end
                local number = tonumber(value)
                if word ~= "--folder" and not (number and number > 0 and number < 36500) then
                    fail(2, "%s cannot be '%s'; 'mare help keys' tells more", word, value)
                end
                i = i + 1
            end
        end
        i = i + 1
    end
end

return function(command, ...)
    local run, form = commands[command], WORDS[command]
    if not run then refuse("there is no", command, commands) end
    check_options(command, {command, ...})
    local words, options = arguments.read(FLAGS, ...)
    if #words < form[1] then refuse(form[3], form[4]) end
    if #words > form[2] then refuse("one word too many:", words[form[2] + 1]) end
    local folder = options["--folder"] or "keys"
    run(#folder > 1 and folder:gsub("/+$", "") or folder, words, options,
        tonumber(options["--days"]))
end
