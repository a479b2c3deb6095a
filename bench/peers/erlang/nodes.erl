%% SPDX-License-Identifier: MIT
%% Between two Erlang nodes, the second of which the first one starts: empty calls by erpc, one at
%% a time (call_us); messages to and fro, one at a time (message_us); the same sent one after the
%% other, answers as they come (pipelined_us).
-module(nodes).
-export([main/1, nothing/0, echo/0]).

nothing() -> ok.

echo() -> receive {From, N} -> From ! N, echo() end.

main([Count]) ->
    N = list_to_integer(Count),
    [] = os:cmd("epmd -daemon -relaxed_command_check"), % on the port in the environment, its own
    mapped(),
    {ok, _} = net_kernel:start(['bench@127.0.0.1', longnames]),
    {ok, Peer, Node} = peer:start_link(#{name => "other", host => "127.0.0.1", longnames => true,
                                         args => ["-pa" | code:get_path()]}),
    pong = net_adm:ping(Node),
    Echo = spawn(Node, ?MODULE, echo, []),
    measure("call_us", fun(Times) -> calls(Node, Times) end, N),
    measure("message_us", fun(Times) -> messages(Echo, Times) end, N),
    measure("pipelined_us", fun(Times) -> pipelined(Echo, Times) end, 5 * N),
    peer:stop(Peer),
    net_kernel:stop(),
    os:cmd("epmd -kill"),
    halt().

mapped() ->
    case string:find(os:cmd("epmd -names"), "up and running") of
        nomatch -> timer:sleep(10), mapped();
        _ -> ok
    end.

measure(Name, F, N) ->
    F(N div 10),
    Start = erlang:monotonic_time(nanosecond),
    F(N),
    io:format("~s ~.3f~n", [Name, (erlang:monotonic_time(nanosecond) - Start) / 1000 / N]).

calls(_, 0) -> ok;
calls(Node, N) ->
    ok = erpc:call(Node, ?MODULE, nothing, []),
    calls(Node, N - 1).

messages(_, 0) -> ok;
messages(Echo, N) ->
    Echo ! {self(), N},
    receive N -> messages(Echo, N - 1) end.

pipelined(Echo, N) ->
    [Echo ! {self(), I} || I <- lists:seq(1, N)],
    [receive I -> ok end || I <- lists:seq(1, N)],
    ok.
