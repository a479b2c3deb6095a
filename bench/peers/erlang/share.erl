%% SPDX-License-Identifier: MIT
%% Equal loops on all cores: how far the least served and the most served are apart, in per cent.
-module(share).
-export([main/1]).

main([Loops, Seconds]) ->
    N = list_to_integer(Loops),
    Till = now_us() + round(number(Seconds) * 1.0e6),
    Self = self(),
    [spawn(fun() -> Self ! {rounds, count(Till, 0)} end) || _ <- lists:seq(1, N)],
    All = [receive {rounds, Rounds} -> Rounds end || _ <- lists:seq(1, N)],
    io:format("apart ~.3f~n", [(lists:max(All) / lists:min(All) - 1) * 100]),
    halt().

count(Till, Rounds) ->
    idle(1000),
    case now_us() > Till of
        true -> Rounds + 1;
        false -> count(Till, Rounds + 1)
    end.

idle(0) -> ok;
idle(N) -> idle(N - 1).

now_us() -> erlang:monotonic_time(microsecond).

number(Text) ->
    try list_to_float(Text) catch error:badarg -> float(list_to_integer(Text)) end.
