"""What the replay counts: repeats, what could safely be served, and what each cache serves."""

from benchmarks.tool_cache import Call, LRUDict, Nothing, Ours, PlainTTL, repeats, replay, servable


def shell(command, result, at=0.0, *, reads=True):
    return Call("bash", {"command": command}, result, at, reads)


RUN = [
    shell("cat a", "1"),
    shell("ls", "a"),
    shell("cat a", "1"),  # servable
    shell("echo x > a", "", reads=False),
    shell("cat a", "2"),  # stale for whoever serves it
    shell("ls", "a"),  # the same, but after a write
    shell("ls", "a"),  # servable
    shell("echo x > a", "", reads=False),  # a write that must not be skipped
    shell("cat a", "2"),
]


def test_a_repeat_is_servable_with_the_same_result_and_only_reads_in_between():
    assert [i for i, safe in enumerate(servable(RUN)) if safe] == [2, 6]
    assert [i for i, seen in enumerate(repeats(RUN)) if seen] == [2, 4, 5, 6, 7, 8]


def test_a_read_whose_result_changed_by_itself_is_not_servable():
    assert servable([shell("ls", "a"), shell("ls", "b"), shell("ls", "b")]) == [False, False, True]


def test_argument_order_makes_no_other_call():
    one = Call("search", {"from": "A", "to": "B"}, "x", 0.0, True)
    other = Call("search", {"to": "B", "from": "A"}, "x", 0.0, True)
    assert servable([one, other]) == [False, True]


def test_the_replay_counts_what_is_served_safely_stale_and_instead_of_a_write():
    found = {kind: replay(kind(), {"run": RUN}) for kind in (Nothing, LRUDict, PlainTTL, Ours)}
    counts = {kind: (one.served, one.safely, one.stale, one.writes_skipped) for kind, one in found.items()}
    assert counts == {
        Nothing: (0, 0, 0, 0),
        LRUDict: (6, 2, 2, 1),  # cat a is stale twice, the second write is skipped
        PlainTTL: (6, 2, 2, 1),
        Ours: (2, 2, 0, 0),
    }


def test_runs_share_nothing():
    runs = {"one": RUN[:2], "other": RUN[:2]}
    assert all(replay(kind(), runs).served == 0 for kind in (LRUDict, PlainTTL, Ours))


def test_the_plain_ttl_cache_expires_and_the_lru_dict_forgets():
    later = [shell("ls", "a"), shell("ls", "a", at=599.0), shell("ls", "a", at=600.0), shell("ls", "a", at=1199.0)]
    assert replay(PlainTTL(), {"run": later}).served == 2
    loop = [shell(str(i), "x") for i in (1, 2, 3, 1, 3)]
    assert replay(LRUDict(2), {"run": loop}).served == 1


def test_airline_reads_outlive_writes_to_something_else_only():
    def airline(tool, args, result, *, reads=True):
        return Call(tool, args, result, 0.0, reads)

    run = [
        airline("get_reservation_details", {"reservation_id": "A"}, "a1"),
        airline("get_reservation_details", {"reservation_id": "B"}, "b1"),
        airline("get_user_details", {"user_id": "u"}, "u1"),
        airline("cancel_reservation", {"reservation_id": "A"}, "done", reads=False),
        airline("get_reservation_details", {"reservation_id": "A"}, "a2"),
        airline("get_reservation_details", {"reservation_id": "B"}, "b1"),
        airline("get_user_details", {"user_id": "u"}, "u2"),
        airline("cancel_reservation", {"reservation_id": "A"}, "error: cancelled already", reads=False),
    ]
    found = replay(Ours(), {"run": run})
    assert (found.served, found.safely, found.stale, found.writes_skipped) == (1, 0, 0, 0)
