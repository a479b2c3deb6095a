%% SPDX-License-Identifier: MIT
%% One integer to and fro between two Erlang processes; ns for one message, half a round trip.
-module(pingpong).
-export([main/1]).

main([Messages]) ->
    Rounds = list_to_integer(Messages) div 2,
    Self = self(),
    spawn(fun() ->
        Pong = spawn(fun pong/0),
        ping(Pong, Rounds div 10),
        Start = erlang:monotonic_time(nanosecond),
        ping(Pong, Rounds),
        Self ! {taken, erlang:monotonic_time(nanosecond) - Start}
    end),
    receive {taken, Ns} -> io:format("ns ~.3f~n", [Ns / (2 * Rounds)]) end,
    halt().

ping(_, 0) -> ok;
ping(Pong, N) ->
    Pong ! {self(), N},
    receive N -> ping(Pong, N - 1) end.

pong() ->
    receive {From, N} -> From ! N, pong() end.
