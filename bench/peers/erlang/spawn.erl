%% SPDX-License-Identifier: MIT
%% Spawn an Erlang process, let it finish, know that it did; ns for one.
%%
%%   ns          one after the other, the child's last act is a message: the cheapest way to know
%%   monitor_ns  one after the other, by spawn_monitor: what a join is
%%   batch_ns    64 at a time, each sends a message
-module(spawn).
-export([main/1]).

main([Count]) ->
    N = list_to_integer(Count),
    Self = self(),
    spawn(fun() ->
        report("ns", fun message/1, N),
        report("monitor_ns", fun monitored/1, N),
        report("batch_ns", fun(Left) -> batches(Left div 64) end, N div 64 * 64),
        Self ! done
    end),
    receive done -> halt() end.

report(Name, Body, N) ->
    Body(N div 10),
    Start = erlang:monotonic_time(nanosecond),
    Body(N),
    Taken = erlang:monotonic_time(nanosecond) - Start,
    io:format("~s ~.3f~n", [Name, Taken / N]).

message(0) -> ok;
message(N) ->
    Self = self(),
    spawn(fun() -> Self ! done end),
    receive done -> message(N - 1) end.

monitored(0) -> ok;
monitored(N) ->
    {_, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, _, normal} -> monitored(N - 1) end.

batches(0) -> ok;
batches(N) ->
    Self = self(),
    start(Self, 64),
    finish(64),
    batches(N - 1).

start(_, 0) -> ok;
start(Self, N) ->
    spawn(fun() -> Self ! done end),
    start(Self, N - 1).

finish(0) -> ok;
finish(N) -> receive done -> finish(N - 1) end.
