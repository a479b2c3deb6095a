%% SPDX-License-Identifier: MIT
%% A process that sleeps for 1 ms, again and again, beside endless loops, on all cores.
-module(crowd).
-export([main/1, loop/0]).

main([Loops, Seconds]) ->
    Start = now_us(),
    [spawn(fun loop/0) || _ <- lists:seq(1, list_to_integer(Loops))],
    io:format("spawn_ms ~.3f~n", [(now_us() - Start) / 1000]),
    Taken = lists:sort(sleeps(now_us() + round(number(Seconds) * 1.0e6), [])),
    io:format("worst_ms ~.3f~n", [lists:last(Taken) / 1000]),
    io:format("p99_ms ~.3f~n", [lists:nth(ceil(0.99 * length(Taken)), Taken) / 1000]),
    halt().

loop() -> loop().

sleeps(Till, Taken) ->
    Before = now_us(),
    timer:sleep(1),
    After = now_us(),
    if After > Till -> [After - Before | Taken];
       true -> sleeps(Till, [After - Before | Taken])
    end.

now_us() -> erlang:monotonic_time(microsecond).

number(Text) ->
    try list_to_float(Text) catch error:badarg -> float(list_to_integer(Text)) end.
