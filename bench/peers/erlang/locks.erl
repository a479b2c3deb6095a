%% SPDX-License-Identifier: MIT
%% Locks of `global` between three Erlang nodes, two of which the first one starts: taken on all of
%% them and given back, one at a time, by one who is alone (us).
-module(locks).
-export([main/1]).

main([Count]) ->
    N = list_to_integer(Count),
    [] = os:cmd("epmd -daemon -relaxed_command_check"), % on the port in the environment, its own
    mapped(),
    {ok, _} = net_kernel:start(['bench@127.0.0.1', longnames]),
    Peers = [begin
                 {ok, Peer, Node} = peer:start_link(#{name => Name, host => "127.0.0.1",
                                                      longnames => true}),
                 pong = net_adm:ping(Node),
                 Peer
             end || Name <- ["other", "third"]],
    global:sync(),
    2 = length(nodes()),
    rounds(N div 10),
    Start = erlang:monotonic_time(nanosecond),
    rounds(N),
    io:format("us ~.3f~n", [(erlang:monotonic_time(nanosecond) - Start) / 1000 / N]),
    [peer:stop(Peer) || Peer <- Peers],
    net_kernel:stop(),
    os:cmd("epmd -kill"),
    halt().

mapped() ->
    case string:find(os:cmd("epmd -names"), "up and running") of
        nomatch -> timer:sleep(10), mapped();
        _ -> ok
    end.

rounds(0) -> ok;
rounds(N) ->
    true = global:set_lock({x, self()}),
    true = global:del_lock({x, self()}),
    rounds(N - 1).
