%% SPDX-License-Identifier: MIT
%% Resident bytes of an Erlang process that waits for a message.
-module(parked).
-export([main/1]).

main([Count]) ->
    N = list_to_integer(Count),
    resident(),
    Before = resident(),
    Kept = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, N)],
    timer:sleep(500),
    Bytes = (resident() - Before) / length(Kept),
    io:format("bytes ~.1f~n", [Bytes]),
    halt().

resident() ->
    {ok, Statm} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = binary:split(Statm, <<" ">>, [global]),
    binary_to_integer(Pages) * 4096.
