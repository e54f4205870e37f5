"""What the log raises tells its reader what to do next."""

from core_log.log import log_errors
from core_log.log.log_errors import Damaged, LogError, Overloaded


def test_every_error_has_a_code_of_its_own() -> None:
    kinds = [
        kind
        for kind in vars(log_errors).values()
        if isinstance(kind, type) and issubclass(kind, LogError)
    ]
    codes = [kind.code for kind in kinds]
    assert len(codes) == len(set(codes)) == 8


def test_damage_names_the_range_and_where_to_go_on() -> None:
    damage = Damaged("orders", 3, 10, 14, "a bad sector")
    assert str(damage) == (
        "orders/3: offsets 10 to 13 cannot be read: a bad sector; continue at 14, and run "
        "`sidegate log verify` for the whole extent"
    )
    assert damage.members == {
        "topic": "orders",
        "partition": 3,
        "first_offset": 10,
        "next_offset": 14,
    }


def test_an_error_without_numbers_has_empty_members() -> None:
    assert dict(Overloaded("busy").members) == {}
