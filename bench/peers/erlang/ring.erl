%% SPDX-License-Identifier: MIT
%% A token goes round a ring of Erlang processes, counting down; ns for one hop.
-module(ring).
-export([main/1]).

main([Hops, Processes]) ->
    N = list_to_integer(Hops),
    Self = self(),
    First = spawn(fun() -> receive {next, Next} -> hop(Next, Self) end end),
    Last = lists:foldl(fun(_, Next) -> spawn(fun() -> hop(Next, Self) end) end,
                       First, lists:seq(2, list_to_integer(Processes))),
    First ! {next, Last},
    turn(First, N div 10),
    io:format("ns ~.3f~n", [turn(First, N) / N]),
    halt().

turn(First, N) ->
    Start = erlang:monotonic_time(nanosecond),
    First ! N,
    receive done -> erlang:monotonic_time(nanosecond) - Start end.

hop(Next, Owner) ->
    receive
        0 -> Owner ! done;
        N -> Next ! N - 1
    end,
    hop(Next, Owner).
