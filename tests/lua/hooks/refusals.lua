-- SPDX-License-Identifier: MIT
-- What the libraries say when they are used wrongly: those of their functions that are ours say it
-- in the same words.
local calls = {
    "coroutine.create(1)", "coroutine.wrap(1)", "coroutine.resume(1)", "coroutine.status(1)",
    "coroutine.close(1)", "coroutine.isyieldable(1)", "coroutine.close(coroutine.running())",
    "coroutine.resume(coroutine.running())", "coroutine.resume(coroutine.create(print), 1, nil)",
    "debug.sethook(1)", "debug.sethook(coroutine.create(print), 1)", "debug.getinfo(1, '>')",
    "debug.getinfo()", "debug.getlocal(1000, 1)", "debug.setlocal(1000, 1, 1)",
    "debug.setmetatable(1)", "debug.getuservalue()", "debug.upvaluejoin()", "debug.traceback(1)",
    "os.exit({})", "os.execute({})", "os.time {}", "os.time(1)", "os.date({})", "os.date('%Ez')",
    "require()", "require({})", "package.loadlib()", "package.searchpath()", "rawget(1)",
    "rawset({}, nil, 1)", "rawlen(1)", "rawequal(1)", "pairs()", "ipairs()", "next()",
    "next({}, 1)", "setmetatable(1, {})", "setmetatable({})", "getmetatable()", "tostring()",
    "tonumber()", "pcall()", "xpcall(print)", "error()", "error(nil)", "assert()", "assert(false)",
    "assert(nil, 'why')", "select(0)", "dofile(1)", "load(1)", "load('x =', '=n')", "loadfile({})",
    "collectgarbage(1)", "collectgarbage('x')", "warn()", "warn({})",
    "print(setmetatable({}, {__tostring = function() return 1 end}))",
    "coroutine.wrap(function() error {} end)()", "coroutine.wrap(function() error 'x' end)()",
    "table.sort({3, 1, 2}, function() return true end)", "table.unpack({}, 1, 1e8)", "string.rep()",
    "('x'):rep({})", "string.format('%d', 1.5)", "1 .. {}", "{} < {}", "2^53 | 1.5", "1 // 0",
    "#print",
}
for _, call in ipairs(calls) do
    local got = table.pack(pcall(assert(load("return " .. call, "=call"))))
    for i = 1, got.n do
        got[i] = tostring(got[i]):gsub("0x%x+", "address"):gsub("\n.*", "")
    end
    print(call, table.unpack(got, 1, got.n))
end
