from collections.abc import Callable

from gatekeeper.policy.decide import Policy

Rules = Callable[..., Policy]


def test_names_go_to_a_dict_and_patterns_to_a_trie_by_action(rules: Rules) -> None:
    tables = rules(
        """
        topics:
          orders: {publish: [billing], admin: []}
          orders.*: {publish: [billing]}
          "{corp:team}.>": {subscribe: [billing]}
        """
    ).tables
    publish, subscribe = tables.actions["publish"], tables.actions["subscribe"]
    assert (list(publish.exact), publish.patterns.size) == (["orders"], 1)
    assert (list(subscribe.exact), subscribe.patterns.size) == ([], 1)
    assert list(tables.actions["admin"].exact) == ["orders"]
    assert (tables.actions["replay"].exact, tables.actions["replay"].patterns.size) == ({}, 0)


def test_a_rules_id_is_its_place_in_the_file(rules: Rules) -> None:
    tables = rules('topics: {"a.{corp:team}.>": {replay: {who: [billing], max_age: 1d}}}').tables
    (rule,) = tables.rules
    assert rule.id == 'topics."a.{corp:team}.>".replay'
    assert (rule.who, rule.reach_s, rule.line) == ({"billing"}, 86400.0, 10)


def test_an_exact_topic_knows_the_denies_that_could_cover_it_and_whether_it_is_alone(
    rules: Rules,
) -> None:
    exact = (
        rules(
            """
            topics:
              a.b: {publish: [billing]}
              a.c: {publish: [billing]}
              "*.c": {publish: [billing]}
            deny:
              - {id: D1, who: [legacy], do: [publish], on: [a.b, "{corp:team}.b"]}
              - {id: D2, who: [legacy], do: [publish], on: z.>}
              - {id: D3, who: [legacy], do: [admin], on: ">"}
            """
        )
        .tables.actions["publish"]
        .exact
    )
    assert [deny.pattern.text for deny in exact["a.b"].denies] == ["a.b", "{corp:team}.b"]
    assert exact["a.b"].alone
    assert exact["a.c"].denies == ()
    assert not exact["a.c"].alone


def test_a_system_topic_is_covered_by_no_wildcard(rules: Rules) -> None:
    exact = (
        rules(
            """
            topics: {_audit: {audit: [reader]}, ">": {audit: [reader]}}
            deny:
              - {id: D1, who: [legacy], do: [audit], on: [">", "*", "{corp:team}"]}
              - {id: D2, who: [legacy], do: [audit], on: _audit}
            """
        )
        .tables.actions["audit"]
        .exact["_audit"]
    )
    assert [deny.pattern.text for deny in exact.denies] == ["_audit"]
    assert exact.alone


def test_denies_of_one_pattern_are_merged_and_the_first_one_keeps_each_subject(
    rules: Rules,
) -> None:
    tables = rules(
        """
        deny:
          - {id: D1, who: [legacy], do: [publish], on: a.*}
          - {id: D2, who: [legacy, reader], do: [publish], on: a.*}
        """
    ).tables
    (merged,) = tables.actions["publish"].denies_on("a.b", ["a", "b"])
    assert {subject: deny.id for subject, deny in merged.by_subject.items()} == {
        "legacy": "D1",
        "reader": "D2",
    }
    assert tables.denied == {"legacy", "reader"}
    assert tables.deny_order == {"D1": 0, "D2": 1}
