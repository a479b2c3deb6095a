%% SPDX-License-Identifier: MIT
%% Processes that are linked to the one that made them and monitored by it, made and ended; the same
%% with nothing but a message from each as it ends.
-module(links).
-export([main/1]).

main([Count]) ->
    N = list_to_integer(Count),
    report("tied_s", fun tied/1, N),
    report("plain_s", fun plain/1, N),
    halt().

report(Name, Body, N) ->
    Body(N div 10),
    Start = erlang:monotonic_time(microsecond),
    Body(N),
    io:format("~s ~.3f~n", [Name, (erlang:monotonic_time(microsecond) - Start) / 1.0e6]).

tied(N) ->
    All = [spawn_opt(fun() -> receive go -> ok end end, [link, monitor]) || _ <- lists:seq(1, N)],
    [Pid ! go || {Pid, _} <- All],
    [receive {'DOWN', Ref, process, _, normal} -> ok end || {_, Ref} <- All].

plain(N) ->
    Self = self(),
    All = [spawn(fun() -> receive go -> Self ! {told, self()} end end) || _ <- lists:seq(1, N)],
    [Pid ! go || Pid <- All],
    [receive {told, Pid} -> ok end || Pid <- All].
