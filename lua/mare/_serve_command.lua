-- SPDX-License-Identifier: MIT
-- `mare serve`: a node that offers its scheduler, on mare.jobs. Everything that happens, and every
-- refusal, is a line of the log.
local mare, node, jobs = require "mare", require "mare.node", require "mare.jobs"
local arguments, settings = require "mare._arguments", require "mare._settings"
local policy, log = require "mare._policy", require "mare.log"

local text, list = settings.text, settings.list
local SPEC = {command = "serve", flags = {["--insecure"] = true, ["--json"] = true}, options = {
    name = text, listen = text, address = text, keys = text, secret = text,
    insecure = settings.flag, group = text, peers = list, log = text},
    sections = policy.sections}
for name, make in pairs(policy.options) do SPEC.options[name] = make end

local function fail(code, ...) arguments.fail("serve", code, ...) end

-- The options of the node, and those of the service.
local function divided(options)
    local of_node = {name = options.name or "serve", listen = options.listen, keys = options.keys,
        secret = options.secret, insecure = options.insecure, group = options.group,
        address = options.address, allow = options.peers}
    local of_service = {trusted = options.keys, peer = options.peer, signed = options.signed}
    for name in pairs(policy.options) do of_service[name] = options[name] end
    local largest = options.source or 256 << 10
    for _, sections in ipairs {options.peer or {}, options.signed or {}} do
        for _, section in pairs(sections) do
            if type(section.source) == "number" then largest = math.max(largest, section.source) end
        end
    end
    if type(largest) == "number" then of_node.message = largest + (256 << 10) end
    return of_node, of_service
end

-- Calls a function that raises an error for wrong options.
local function checked(f, options)
    local ok, result, message = pcall(f, options)
    if not ok then fail(2, "%s", tostring(result):gsub("^.-%((.*)%)$", "%1")) end
    if not result then fail(1, "%s", message) end
    return result
end

return function(...)
    local given, rest = settings.split(SPEC, ...)
    if #rest > 0 then fail(2, "there is no option '%s'; 'mare help serve' lists them", rest[1]) end
    local options, words = settings.gather(SPEC, given)
    if not options.listen then fail(2, "--listen HOST:PORT is needed") end
    local of_node, of_service = divided(options)
    local ok, message = log.setup {to = options.log or "stderr",
        format = words["--json"] and "json" or "text"}
    if not ok then fail(1, "%s", message) end
    local ending, refusals, audit = arguments.ending(), mare.channel(100), log.new "node"
    of_node.log = refusals
    local address = checked(node.start, of_node)
    mare.go(function()
        for line in refusals:messages() do audit.warn(line) end
    end):detach()
    checked(jobs.serve, of_service)
    if options.insecure then
        io.stderr:write("mare serve: WARNING: --insecure: all who reach this node can use it\n")
    end
    audit.info("serving", {name = of_node.name, address = address})
    ending()
    audit.info("stopping", {name = of_node.name})
    jobs.stop(15)
    node.stop(5)
    log.flush(1)
    os.exit(0)
end
