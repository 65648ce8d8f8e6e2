#!/usr/bin/env escript
%%! -hidden -dist_listen false
%% A lasting connection to a RabbitMQ node: one command a line on standard
%% input, one answer a line on standard output. A command of rabbitmqctl takes
%% about a second, most of it to start a virtual machine; here it takes
%% milliseconds.
%%
%%   ok <text>      the answer
%%   error <text>   why there is none

main([Name, Node, Cookie]) ->
    {ok, _} = net_kernel:start([list_to_atom(Name), shortnames]),
    true = erlang:set_cookie(list_to_atom(Cookie)),
    loop(list_to_atom(Node)).

loop(Node) ->
    case io:get_line("") of
        eof -> ok;
        Line -> io:format("~ts~n", [answer(Node, string:trim(Line))]), loop(Node)
    end.

answer(Node, Line) ->
    [Command | Rest] = string:split(Line, " "),
    try run(Node, list_to_atom(Command), Rest) of
        Answer -> ["ok ", Answer]
    catch
        _:Reason -> ["error ", io_lib:format("~0tp", [Reason])]
    end.

run(Node, add_vhost, [Name]) ->
    VHost = list_to_binary(Name),
    ok = call(Node, rabbit_vhost, add, [VHost, <<"tests">>]),
    All = <<".*">>,
    ok = call(Node, rabbit_auth_backend_internal, set_permissions,
              [<<"guest">>, VHost, All, All, All, <<"tests">>]),
    "";
%% A user whose password is the name, who may do what the patterns say: configure, write, read.
run(Node, add_user, [Rest]) ->
    [Name, VHost | Patterns] = [list_to_binary(Word) || Word <- string:split(Rest, " ", all)],
    [Configure, Write, Read] = Patterns,
    ok = call(Node, rabbit_auth_backend_internal, add_user, [Name, Name, <<"tests">>]),
    ok = call(Node, rabbit_auth_backend_internal, set_permissions,
              [Name, VHost, Configure, Write, Read, <<"tests">>]),
    "";
run(Node, delete_vhost, [Name]) ->
    call(Node, rabbit_vhost, delete, [list_to_binary(Name), <<"tests">>]),
    "";
%% Make a virtual host what a new one is, in a third of the time that a new one takes; or say that
%% this is left undone: somebody is connected still, or a queue's members end later, or just now.
run(Node, empty_vhost, [Name]) ->
    try empty(Node, list_to_binary(Name)) catch _:_ -> "undone" end;
run(Node, depths, [Name]) ->
    VHost = list_to_binary(Name),
    Items = [name, type, messages_ready, messages_unacknowledged],
    Found = call(Node, rabbit_amqqueue, info_all, [VHost, Items]),
    lists:join("\t", [depth(Node, Queue) || Queue <- Found]);
run(Node, eval, [Expression]) ->
    {ok, Tokens, _} = erl_scan:string(Expression),
    {ok, Parsed} = erl_parse:parse_exprs(Tokens),
    {value, Value, _} = call(Node, erl_eval, exprs, [Parsed, []]),
    io_lib:format("~0tp", [Value]).

%% name:ready:unacknowledged
depth(Node, [{_, {resource, _, queue, Name} = Queue}, {_, Type}, {_, Ready}, {_, Unacked}]) ->
    IsQuorum = lists:member(Type, [quorum, <<"quorum">>]),  % as releases call it
    Depths = if IsQuorum -> quorum(Node, Queue); true -> [Ready, Unacked] end,
    io_lib:format("~ts:~b:~b", [Name | Depths]).

%% The figures that a quorum queue publishes are up to five seconds old, so its
%% leader is asked.
quorum(Node, Name) ->
    {ok, Queue} = call(Node, rabbit_amqqueue, lookup, [Name]),
    Leader = call(Node, amqqueue, get_pid, [Queue]),
    Queries = [fun rabbit_fifo:query_messages_ready/1, fun rabbit_fifo:query_messages_checked_out/1],
    [begin {ok, {_, Value}, _} = call(Node, ra, leader_query, [Leader, Query]), Value end
     || Query <- Queries].

call(Node, Module, Function, Arguments) ->
    case rpc:call(Node, Module, Function, Arguments, 30000) of
        {badrpc, Reason} -> throw(Reason);
        Value -> Value
    end.

empty(Node, VHost) ->
    Queues = call(Node, rabbit_amqqueue, list, [VHost]),
    Connected = call(Node, rabbit_connection_tracking, list, [VHost]),
    Classic = [Queue || Queue <- Queues, call(Node, amqqueue, get_type, [Queue]) == rabbit_classic_queue],
    Set = call(Node, rabbit_runtime_parameters, list, [VHost]) ++ call(Node, rabbit_policy, list, [VHost]),
    case {Connected, Queues -- Classic, Set} of
        {[], [], []} ->
            [{ok, _} = call(Node, rabbit_amqqueue, delete, [Queue, false, false, <<"tests">>])
             || Queue <- Queues],
            [ok = call(Node, rabbit_exchange, delete, [Exchange, false, <<"tests">>])
             || {resource, _, exchange, Id} = Exchange <- call(Node, rabbit_exchange, list_names, []),
                element(2, Exchange) == VHost, Id =/= <<"">>, string:prefix(Id, "amq.") == nomatch],
            "done";
        _ -> "undone"
    end.
