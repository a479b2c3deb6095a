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
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kilobytes]} = re:run(Status, "VmRSS:\\s*(\\d+) kB", [{capture, [1], binary}]),
    binary_to_integer(Kilobytes) * 1024.
