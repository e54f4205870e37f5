from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.policy.pattern import Template, parse_pattern
from gatekeeper.policy.trie import PatternTrie

NAMES = st.sampled_from(["a", "b", "c"])
TEMPLATES = ["{x:t}", "{x:u}", "{y:t}"]
SEGMENTS = st.one_of(NAMES, st.just("*"), st.sampled_from(TEMPLATES))
TOPICS = st.lists(NAMES, min_size=1, max_size=5)
VALUES = st.dictionaries(
    st.sampled_from([Template("x", "t"), Template("x", "u"), Template("y", "t")]), NAMES
)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    segments = draw(st.lists(SEGMENTS, max_size=4))
    if not segments or draw(st.booleans()):
        segments.append(">")
    return ".".join(segments)


def trie_of(texts: list[str]) -> PatternTrie[str]:
    trie: PatternTrie[str] = PatternTrie()
    for text in texts:
        trie.add(parse_pattern(text), text)
    return trie


@given(st.lists(patterns()), TOPICS)
def test_covering_finds_what_a_look_at_every_pattern_finds(
    texts: list[str], topic: list[str]
) -> None:
    expected = [text for text in texts if parse_pattern(text).covers(topic)]
    assert sorted(trie_of(texts).covering(topic)) == sorted(expected)


@given(st.lists(patterns()), TOPICS, VALUES)
def test_fitting_finds_those_whose_templates_have_the_topics_segments(
    texts: list[str], topic: list[str], values: dict[Template, str]
) -> None:
    expected = [
        text
        for text in texts
        if (pattern := parse_pattern(text)).covers(topic)
        and all(values.get(template) == topic[place] for place, template in pattern.templates)
    ]
    assert sorted(trie_of(texts).fitting(topic, values)) == sorted(expected)


def test_it_counts_what_it_holds() -> None:
    assert trie_of(["a", "a", "*.>"]).size == 3


def test_many_templates_on_one_branch_are_looked_up_by_the_callers_few_claims() -> None:
    texts = [f"team.{{corp:claim{n}}}.>" for n in range(1000)]
    values = {Template("corp", "claim7"): "pay", Template("corp", "claim9"): "x"}
    assert trie_of(texts).fitting(["team", "pay", "a"], values) == ["team.{corp:claim7}.>"]
