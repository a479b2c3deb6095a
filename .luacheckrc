-- SPDX-License-Identifier: MIT
std = "lua54"
max_line_length = 100
-- Unused arguments say what a function is given; loops and methods often do not need them all.
unused_args = false
exclude_files = {"build*", "bench/out"}
files["examples"] = {globals = {"luaproc"}}
-- A variable that is only there to be closed starts with an underscore.
files["tests"] = {globals = {"luaproc"}, ignore = {"211/_.*"}}
-- Functions that other processes call are globals.
for _, name in ipairs {"tests/lua/test_rpc*.lua", "tests/lua/test_monitor.lua", "tests/lua/test_s[cy]*.lua", "examples/2[5-9]_*.lua",
                       "examples/30_*.lua"} do
    files[name] = {allow_defined = true, ignore = {"211/_.*", "131"}}
end
