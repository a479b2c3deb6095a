%% SPDX-License-Identifier: MIT
%% An echo server beside endless loops, on all cores: prints its port, and serves until it is ended.
-module(echo).
-export([main/1, loop/0]).

main([Loops]) ->
    [spawn(fun loop/0) || _ <- lists:seq(1, list_to_integer(Loops))],
    {ok, Listener} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false},
                                        {nodelay, true}, {backlog, 1024}]),
    {ok, Port} = inet:port(Listener),
    io:format("~b~n", [Port]),
    accept(Listener).

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    gen_tcp:controlling_process(Socket, spawn(fun() -> serve(Socket) end)),
    accept(Listener).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> gen_tcp:send(Socket, Bytes), serve(Socket);
        {error, _} -> ok
    end.

loop() -> loop().
