-- SPDX-License-Identifier: MIT
-- mare.etcd against servers that answer as etcd never should, or not at all. Real ones are in
-- test_etcd_cluster.lua.
local mare, t, etcd = require "mare", require "t", require "mare.etcd"
local net, http, json = require "mare.net", require "mare.http", require "mare.json"
local patience = t.patience

http.look_time = 0.005 -- so that a handler whose client has gone ends soon

local JSON = {["content-type"] = "application/json"}

-- An answer of etcd's.
local function good(value) return {headers = JSON, body = json.encode(value)} end

-- An error of etcd's.
local function bad(status, number, message)
    return {status = status, headers = JSON,
        body = json.encode {error = message, message = message, code = number}}
end

-- A server: `answers[path](request, n)` says what the n-th request there is answered; what was
-- asked is in `asked`, a list of {path, request}.
local function serve(answers)
    local listener = assert(net.listen("127.0.0.1", 0))
    local made = {asked = {}, count = {},
        url = "http://127.0.0.1:" .. select(2, listener:address())}
    mare.go(http.serve, listener, function(request)
        local path = request.path:gsub("^/v3/", "")
        local what = request.method == "POST" and json.decode(request:text()) or {}
        made.asked[#made.asked + 1] = {path, what, request}
        made.count[path] = (made.count[path] or 0) + 1
        local answer = answers[path]
        if type(answer) == "function" then answer = answer(what, made.count[path], request) end
        return answer or bad(404, 5, "not here")
    end, {log = function() end})
    return setmetatable(made, {__close = function() listener:close() end})
end

local function connect(urls, options)
    local given = {timeout = patience, try_time = patience}
    for name, value in pairs(options or {}) do given[name] = value end
    local db = etcd.client(urls, given)
    db.at = 1
    return db
end

local ok = {kvs = {{key = "YQ==", value = "Yg==", create_revision = "3", mod_revision = "4",
    version = "2"}}, header = {revision = "7"}, count = "1"}

-- Cuts the connection.
local function cut(_, _, request)
    request.taken = true
    request.stream:close()
end

-- Answers by half.
local function half(_, _, request)
    request.taken = true
    request.stream:write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" ..
        "Content-Length: 100\r\n\r\n{\"kvs\"")
    request.stream:close()
end

-- Never answers.
local function silent() mare.sleep(1000) end

-- Answers that are of no use, and the code that a read gets.
local odd = {
    {"text", {headers = {["content-type"] = "text/plain"}, body = "hello"}, "badmsg"},
    {"no type", {body = "{}"}, "badmsg"},
    {"garbage", {headers = JSON, body = "{\"kvs\": [}"}, "badmsg"},
    {"a number", {headers = JSON, body = "7"}, "badmsg"},
    {"nothing", {headers = JSON, body = ""}, "badmsg"},
    {"no HTTP", function(_, _, request)
        request.taken = true
        request.stream:write "SSH-2.0-OpenSSH\r\n\r\n"
        request.stream:close()
    end, "badmsg"},
    {"elsewhere", {status = 302, headers = {location = "http://127.0.0.1:1/"}}, "badmsg"},
    {"an error in text", {status = 500, body = "oops"}, "badmsg"},
    {"an error that is none", {status = 500, headers = JSON, body = json.encode(ok)}, "badmsg"},
    {"something else", {status = 201, headers = JSON, body = json.encode(ok)}, "badmsg"},
    {"huge", {headers = JSON, body = json.encode {kvs = {{key = ("A"):rep(8000)}}}}, "toobig"},
    {"huge and endless", function()
        return {headers = JSON, body = function() return (" "):rep(1000) end}
    end, "toobig"},
    {"bytes that are none", good {kvs = {{key = "!"}}}, "badmsg"},
    {"a list that is none", good {kvs = "x"}, "badmsg"},
    {"a revision that is none", good {kvs = {{key = "YQ==", mod_revision = "1.5"}}}, "badmsg"},
    {"an item that is none", good {kvs = {5}}, "badmsg"},
    {"denied", bad(403, 7, "etcdserver: permission denied"), "denied"},
    {"invalid", bad(400, 3, "etcdserver: key is not provided"), "invalid"},
    {"an error of another kind", bad(500, 13, "internal"), "failed"},
    {"an error without a text", {status = 500, headers = JSON, body = '{"error":5,"code":"x"}'},
        "failed"},
    {"an error in a stream", good {error = {grpc_code = 7, message = "no"}}, "denied"},
}

-- A stream of messages, each a table or a text; then it is cut, or goes on without a word.
local function stream(messages, goes_on)
    local at = 0
    return {headers = JSON, body = function()
        at = at + 1
        local message = messages[at]
        if message == nil and goes_on then mare.sleep(1000) end
        if message == nil then return nil, "cut", "io" end
        return type(message) == "table" and json.encode(message) .. "\n" or message
    end}
end

local function result(value) return {result = value} end
local created = result {created = true, header = {revision = "10"}}

local function event(revision, value)
    return {kv = {key = "YQ==", value = value or "Yg==", mod_revision = tostring(revision)}}
end

return {
    what_is_of_no_use_is_told = function()
        for _, case in ipairs(odd) do
            local server <close> = serve {["kv/range"] = case[2], ["kv/put"] = case[2]}
            local db <close> = connect(server.url, {most = 5000})
            local value, message, code = db:get "a"
            t.eq({value, code, n = 2}, {nil, case[3], n = 2}, case[1] .. ": " .. tostring(message))
            t.eq(#server.asked, 1, case[1])
        end
    end,

    who_answers_well_is_asked_instead = function()
        local right <close> = serve {["kv/range"] = good(ok)}
        for _, case in ipairs(odd) do
            if case[3] == "badmsg" and not case[1]:find "none" and case[1] ~= "a number" then
                local wrong <close> = serve {["kv/range"] = case[2]}
                local db <close> = connect {wrong.url, right.url}
                t.eq(db:get "a", "b", case[1])
            end
        end
        local db <close> = connect(right.url)
        local value, item = db:get "a"
        t.eq({value, item}, {"b", {key = "a", value = "b", created = 3, modified = 4, version = 2}})
    end,

    what_cannot_be_repeated_is_not = function()
        local right <close> = serve {["kv/put"] = good(ok), ["kv/range"] = good(ok)}
        for name, answer in pairs {
            cut = cut,
            half = half,
            garbage = odd[3][2],
            timed_out = bad(503, 14, "etcdserver: request timed out"),
            gateway = {status = 502, body = "bad gateway"},
            unknown = bad(500, 2, "what?"),
        } do
            local wrong <close> = serve {["kv/put"] = answer, ["kv/range"] = answer}
            local db <close> = connect {wrong.url, right.url}
            local value, message, code = db:put("a", "b")
            t.eq({value, code, n = 2}, {nil, "unsure", n = 2}, name .. ": " .. tostring(message))
            t.eq(wrong.count["kv/put"], 1, name)
        end
        t.eq(right.count["kv/put"], nil)
        local nobody = assert(net.listen("127.0.0.1", 0))
        local closed = "http://127.0.0.1:" .. select(2, nobody:address())
        nobody:close()
        local busy <close> = serve {["kv/put"] = bad(503, 14, "etcdserver: no leader")}
        local db <close> = connect {closed, busy.url, right.url}
        t.eq(db:put("a", "b"), 7) -- that it did not get there, or was not done, is known
        t.in_some_time(function(time) -- enough to ask
            local slow <close> = serve {["kv/put"] = silent}
            local _, _, code = connect(slow.url):put("a", "b", {timeout = time})
            return code == "unsure" and #slow.asked == 1
        end)
    end,

    who_says_nothing_is_left_for_the_next = function()
        local right <close> = serve {["kv/range"] = good(ok)}
        t.in_some_time(function(time) -- enough for the right one to answer
            local mute <close> = serve {["kv/range"] = silent}
            local db <close> = connect({mute.url, right.url}, {try_time = time})
            t.eq(db:get "a", "b")
            t.eq(db.at, 2)
            t.eq(db:get "a", "b")
            return mute.count["kv/range"] == 1 -- who answered last is asked first
        end)
    end,

    everything_has_a_deadline = function()
        local mute <close> = serve {["kv/range"] = silent, watch = silent, ["lease/grant"] = silent}
        local db <close> = connect(mute.url)
        t.fails("timeout", db:get("a", {timeout = 0.02}))
        t.fails("timeout", db:list("a", {timeout = 0.02}))
        t.fails("timeout", db:watch("a", {timeout = 0.02}))
        t.fails("timeout", db:lease(5, {timeout = 0.02}))
        t.fails("timeout", db:lock("a", 0.02))
        t.fails("timeout", db:election "a":leader(mare.deadline(0.02)))
        local gone = assert(net.listen("127.0.0.1", 0))
        local url = "http://127.0.0.1:" .. select(2, gone:address())
        gone:close()
        t.fails("unavailable", connect(url):get("a", {timeout = 0.02}))
        local _, _, code = connect "http://nobody.invalid:1":get("a", {timeout = 0.02})
        t.ok(code == "unavailable" or code == "timeout", code) -- and not "noname", as of a key
        local before = mute.count["kv/range"] or 0 -- some may not have got there in time
        local waits = mare.go(db.get, db, "a")
        t.reaches(function() return (mute.count["kv/range"] or 0) > before end)
        waits:cancel()
        t.eq({select(4, waits:join(patience))}, {"cancelled"})
    end,

    a_cancel_is_heard_in_the_middle_of_an_answer = function()
        local begun = mare.channel(1)
        local function begin()
            local part = 0
            return {headers = JSON, body = function()
                part = part + 1
                if part == 1 then return '{"kvs": [' end
                begun:send(true)
                mare.sleep(1000)
            end}
        end
        local server <close> = serve {["kv/range"] = begin, ["kv/put"] = begin}
        local db <close> = connect(server.url)
        for _, call in ipairs {"get", "put"} do
            local waits = mare.go(db[call], db, "a", call == "put" and "b" or nil)
            t.ok(begun:receive(patience))
            t.settle()
            waits:cancel()
            t.eq({select(4, waits:join(patience))}, {"cancelled"})
        end
    end,

    a_cancel_is_heard_when_a_watch_begins_at_the_same_time = function()
        local server <close> = serve {watch = function(_, _, request)
            while not request.gone do mare.sleep(0.001) end
        end}
        local db <close> = connect(server.url)
        local waits = mare.go(db.watch, db, "a")
        t.reaches(function() return next(db.open) and server.count.watch end)
        waits:cancel()
        local state = next(db.open)
        state.begun = true
        state.created:close()
        t.eq((select(4, waits:join(patience))), "cancelled")
        t.reaches(function() return not next(db.open) end)
    end,

    what_passes_is_asked_again = function()
        local server <close> = serve {["kv/range"] = function(what, n, request)
            if n == 1 then return half(what, n, request) end
            if n == 2 then return cut(what, n, request) end
            if n == 3 then return bad(500, 2, "context deadline exceeded") end
            return n < 5 and bad(503, 14, "etcdserver: leader changed") or good(ok)
        end}
        local db <close> = connect(server.url)
        t.eq(db:get "a", "b")
        t.eq(server.count["kv/range"], 5)
    end,

    a_watch_outlives_a_cluster_that_is_away_for_long = function()
        local server <close> = serve {watch = function(what, n, request)
            if n == 1 then return stream {created} end
            if n < 4 then return cut(what, n, request) end
            return stream({created, result {events = {event(11)}}}, true)
        end}
        local db <close> = connect(server.url, {timeout = 0.02}) -- shorter than that
        local watch <close> = t.ok(db:watch("a", {timeout = patience}))
        t.eq(t.ok(watch:receive(patience)).revision, 11)
    end,

    -- Users.

    a_token_is_renewed_once = function()
        local server <close> = serve {
            ["auth/authenticate"] = function(_, n) return good {token = "t" .. n} end,
            ["kv/range"] = function(_, n, request)
                return request.headers.authorization == "t2" and n < 4 and good(ok)
                    or bad(401, 16, "etcdserver: invalid auth token")
            end,
        }
        local db <close> = connect(server.url, {user = "u", password = "p"})
        t.eq(db:get "a", "b") -- the first token was of no use
        t.eq(server.asked[1][2], {name = "u", password = "p"})
        t.eq(db:get "a", "b")
        t.eq(server.count["auth/authenticate"], 2)
        t.fails("denied", db:get "a") -- nor is the third
        t.eq(server.count["auth/authenticate"], 3)
    end,

    who_is_not_let_in_asks_once = function()
        local server <close> = serve {["auth/authenticate"] = bad(400, 3,
            "etcdserver: authentication failed, invalid user ID or password")}
        local db <close> = connect(server.url, {user = "u", password = "p"})
        t.fails("denied", db:put("a", "b"))
        t.fails("denied", db:watch "a")
        t.eq(server.count, {["auth/authenticate"] = 2})
    end,

    -- Watches.

    a_watch_goes_on_from_the_next_revision = function()
        local from = {}
        local streams = {
            stream {created, '{"result": {"events": [{"kv": {"ke'},
            stream {created, result {events = {event(11), event(12)}},
                result {events = {{kv = 7}}}},
            stream {created, result {events = {event(12), event(13)}}, "garbage"},
            {headers = JSON, body = "[]"},
            {status = 503, body = "not now"},
            stream {created, {error = {grpc_code = 14, message = "etcdserver: no leader"}}},
            stream {created, result {header = {revision = "20"}}}, -- how far it has got
            stream({created, result {events = {event(21)}}}, true),
        }
        local server <close> = serve {watch = function(request, n)
            from[n] = request.create_request.start_revision or 0
            return streams[n]
        end}
        local db <close> = connect(server.url)
        local watch <close> = t.ok(db:watch "a")
        for _, revision in ipairs {11, 12, 13, 21} do
            t.eq(t.ok(watch:receive(patience)).revision, revision)
        end
        t.eq(from, {0, 11, 13, 14, 14, 14, 14, 21})
        t.eq(watch:next(), 22)
        t.eq(server.asked[1][3].headers["grpc-metadata-hasleader"], "true")
    end,

    a_watch_ends_for_a_reason = function()
        for _, case in ipairs {
            {result {canceled = true, compact_revision = "15"}, "compacted", 15},
            {result {created = true, canceled = true, cancel_reason =
                "rpc error: code = PermissionDenied desc = etcdserver: permission denied"},
                "denied"},
        } do
            local server <close> = serve {watch = stream({created, case[1]}, true)}
            local db <close> = connect(server.url)
            local watch = t.ok(db:watch "a")
            local value, _, code, revision = watch:receive(patience)
            t.eq({value, code, revision, n = 3}, {nil, case[2], case[3], n = 3})
            t.eq(#server.asked, 1)
        end
    end,

    a_message_of_a_watch_has_a_limit = function()
        local server <close> = serve {watch = function(_, n)
            if n == 1 then
                return stream({created, '{"result": {"events": ["', ("A"):rep(10000)}, true)
            end
            return stream({created, result {events = {event(11, "Yw==")}}}, true)
        end}
        local db <close> = connect(server.url, {most = 5000, silence = 1000})
        local watch <close> = t.ok(db:watch "a")
        t.eq(t.ok(watch:receive(patience)).value, "c")
    end,

    a_silent_member_is_asked_whether_it_is_there = function()
        local there = 0
        local server <close> = serve {watch = function(_, n)
            return stream({created, n == 2 and result {events = {event(11)}} or nil}, true)
        end, ["/version"] = function()
            there = there + 1
            return there < 3 and "yes" or {status = 500}
        end}
        local db <close> = connect(server.url, {silence = 0.01})
        local watch <close> = t.ok(db:watch "a")
        t.eq(t.ok(watch:receive(patience)).revision, 11)
        t.ok(there >= 3)
    end,

    a_watch_that_nothing_refers_to_ends = function()
        local server <close> = serve {watch = function() return stream({created}, true) end}
        local db <close> = connect(server.url)
        t.ok(db:watch "a")
        t.ok(next(db.open))
        t.reaches(function()
            collectgarbage()
            return not next(db.open)
        end)
    end,

    -- Leases and locks.

    a_lease_that_the_cluster_does_not_have_is_lost = function()
        local server <close> = serve {["lease/grant"] = good {ID = "77", TTL = "30"},
            ["lease/keepalive"] = function(request, n)
                t.eq(request.ID, 77)
                return good {result = {ID = "77", TTL = n == 1 and "30" or nil}}
            end}
        local db <close> = connect(server.url)
        local lease = t.ok(db:lease(30))
        local ends = lease.ends
        lease.routine:cancel()
        t.reaches(function() return lease.ends > ends end, "it was not renewed")
        t.eq(lease:alive(), true)
        lease.routine:cancel()
        t.eq({mare.select({lease}, patience)}, {1, nil, "the lease has ended", "lost"})
        t.fails("lost", lease:alive())
        t.eq(lease:left(), 0)
    end,

    what_was_not_renewed_in_time_is_lost_whatever_comes_then = function()
        local answer, waiting = mare.channel(), mare.channel()
        local server <close> = serve {["lease/grant"] = good {ID = "77", TTL = "30"},
            ["kv/txn"] = function()
                return good {succeeded = true, header = {revision = "5"}, responses = {
                    {response_put = {}}, {response_range = {kvs = {{key = "YQ=="}}}}}}
            end,
            ["lease/keepalive"] = function()
                waiting:send(true)
                answer:receive(patience)
                return good {result = {ID = "77", TTL = "30"}}
            end}
        local db <close> = connect(server.url)
        local lock = t.ok(db:lock("a", patience))
        t.eq(lock:fence(), 5)
        db.shared.routine:cancel()
        t.ok(waiting:receive(patience)) -- it is being renewed
        db.shared.ends = mare.now() + 0.01
        local which, value, message, code = mare.select({lock}, patience)
        t.eq({which, value, message, code, n = 4},
            {1, nil, "the lease was not renewed in time", "lost", n = 4})
        answer:send(true)
        t.settle()
        t.fails("lost", lock:held())
        t.fails("lost", lock:unlock())
        -- The same if nobody has looked in between.
        local lease = t.ok(db:lease(30))
        lease.routine:cancel()
        t.ok(waiting:receive(patience))
        lease.ends = mare.now()
        answer:send(true)
        t.reaches(function() return lease.reason or lease.ends > mare.now() end)
        t.fails("lost", lease:alive())
    end,

    a_lease_is_looked_at_by_the_clock = function()
        local server <close> = serve {["lease/grant"] = good {ID = "77", TTL = "30"}}
        local db <close> = connect(server.url)
        local lease = t.ok(db:lease(30))
        lease.ends = mare.now() + 0.01 -- and its routine sleeps for 10 s
        t.eq({mare.select({lease}, patience)},
            {1, nil, "the lease was not renewed in time", "lost"})
    end,

    a_place_in_line_that_may_have_been_taken_is_given_up_for_good = function()
        local right <close> = serve {["lease/grant"] = good {ID = "77", TTL = "30"},
            ["lease/revoke"] = good {}, ["kv/txn"] = function(request, n)
                if n == 1 then -- the first try was done, by the other
                    t.eq(request.compare[2].target, "VERSION")
                    return good {responses = {{response_range = {kvs = {{key =
                        request.compare[1].key, create_revision = "5"}}}}},
                        header = {revision = "9"}}
                elseif n == 2 then -- who is before it?
                    return good {succeeded = true, header = {revision = "9"}, responses = {
                        {response_range = {kvs = {{key = "YQ==", create_revision = "5"}}}},
                        {response_range = {}}}}
                end
                return good {succeeded = true, responses = {{response_delete_range = {}}}}
            end}
        local wrong <close> = serve {["kv/txn"] = cut}
        local db <close> = connect {right.url, wrong.url}
        t.ok(db:session(mare.deadline(patience)))
        db.at = 2
        local lock = t.ok(db:lock("a", patience))
        t.eq({lock:fence(), lock:unlock()}, {5, true})
        local claimed, freed = wrong.asked[1][2], right.asked[#right.asked][2]
        t.eq(freed.success[1].request_delete_range.key, claimed.compare[1].key)
        t.eq(freed.success[2].request_put.key, claimed.compare[2].key)
        t.eq(freed.success[2].request_put.lease, 77)
    end,

    a_client_that_is_closed_says_so = function()
        local server <close> = serve {["lease/grant"] = good {ID = "77", TTL = "30"},
            ["lease/revoke"] = good {}, watch = function() return stream({created}, true) end}
        local db = connect(server.url)
        local lease, watch = t.ok(db:lease(30)), t.ok(db:watch "a")
        t.eq(db:close(), true)
        t.eq(db:close(), false)
        t.fails("closed", lease:alive())
        t.fails("closed", watch:receive())
        t.fails("closed", db:get "a")
        t.fails("closed", db:lock("a", 1))
        t.fails("closed", db:watch "a")
        t.eq(server.count["lease/revoke"], 1)
    end,

    a_routine_that_fails_ends_its_leases_and_locks = function()
        local server <close> = serve {["lease/grant"] = good {ID = "77", TTL = "30"},
            ["lease/revoke"] = good {}, ["kv/txn"] = function(what)
                local deleted = what.success[1].request_delete_range and {
                    response_delete_range = {deleted = "1"}}
                return good {succeeded = true, header = {revision = "5"}, responses = {
                    deleted or {response_put = {}},
                    {response_range = {kvs = {{key = "YQ=="}}}}}}
            end}
        local routine = mare.go(function()
            local _ <close> = connect(server.url)
            t.ok(_:lease(30))
            error "on purpose"
        end)
        t.eq(routine:join(patience), nil)
        t.reaches(function() return server.count["lease/revoke"] == 1 end)
        local db <close> = connect(server.url)
        routine = mare.go(function()
            local _ <close> = t.ok(db:lock("a", patience))
            error "on purpose"
        end)
        t.eq(routine:join(patience), nil)
        t.reaches(function() return server.count["kv/txn"] == 2 end)
        t.eq(server.asked[#server.asked][2].success[1].request_delete_range ~= nil, true)
        t.eq(db.shared:alive(), true) -- others may have locks under it
    end,

    -- Misuse.

    what_makes_no_sense_is_refused = function()
        for _, endpoints in ipairs {{}, {"ftp://a"}, {"http://a/b"}, {5}, "nothing"} do
            t.raises("bad argument #1 to 'client'", etcd.client, endpoints)
        end
        t.raises("bad argument #1 to 'client' %(table expected, got no value%)", etcd.client)
        local url = "http://127.0.0.1:1"
        t.raises("unknown option 'pasword'", etcd.client, url, {pasword = "x"})
        t.raises("a user and a password", etcd.client, url, {user = "x"})
        t.raises("option 'ttl' must be seconds above 0", etcd.client, url, {ttl = 0})
        local db <close> = etcd.client(url)
        for _, case in ipairs {
            {"get", "bad argument #1 to 'get' %(string expected, got number%)", 5},
            {"get", "unknown option 'prefix'", "a", {prefix = true}},
            {"get", "option 'revision' must be a revision", "a", {revision = 0}},
            {"list", "option 'order' must be the name of an order", "a", {order = "x"}},
            {"put", "bad argument #2 to 'put'", "a", 5},
            {"put", "option 'lease' must be a lease", "a", "b", {lease = "x"}},
            {"put", "option 'timeout' must be seconds or a deadline", "a", "b", {timeout = "x"}},
            {"compact", "bad argument #1 to 'compact'", -1},
            {"watch", "option 'only' must be", "a", {only = "get"}},
            {"lock", "bad argument #1 to 'lock'", 5},
            {"lock", "bad argument #2 to 'lock'", "a", "soon"},
            {"lease", "bad argument #1 to 'lease'", 0},
            {"transaction", "bad argument #1 to 'transaction'"},
            {"transaction", "unknown option 'then'", {["then"] = {}}},
            {"transaction", "compare 1: no target 'size'", {compare = {{"a", "size", "=", 1}}}},
            {"transaction", "compare 1: no operator '=='",
                {compare = {{"a", "version", "==", 1}}}},
            {"transaction", "compare 2: a string expected",
                {compare = {{"a", "version", "=", 1}, {"a", "value", "=", 1}}}},
            {"transaction", "success 1: no operation 'set'", {success = {{"set", "a"}}}},
            {"transaction", "failure 1: a value expected", {failure = {{"put", "a"}}}},
        } do
            t.raises(case[2], db[case[1]], db, table.unpack(case, 3))
        end
    end,
}
