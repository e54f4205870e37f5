"""Every error that can reach a route has its place in the one list."""

import inspect
import pkgutil
from importlib import import_module

import core_log
from core_log.problems import TABLE

NEVER_ON_A_ROUTE = {
    "BadMessage",  # ends a stream
    "BadRecord",  # keeps the core from starting
    "ControlDamaged",  # keeps the core from starting
    "IndexUnusable",  # is rebuilt
    "NotSupported",  # asked of capabilities first
    "ReaderGone",  # nobody is left to be answered
    "StreamEnded",  # ends a stream
}


def test_every_error_of_the_core_has_a_problem_or_a_reason_to_have_none() -> None:
    for module in pkgutil.iter_modules(core_log.__path__, "core_log."):
        for name, kind in inspect.getmembers(import_module(module.name), inspect.isclass):
            ours = issubclass(kind, Exception) and kind.__module__ == module.name
            if ours and not name.startswith("_") and name not in NEVER_ON_A_ROUTE:
                subclasses = kind.__subclasses__()
                known = TABLE.find(kind.__new__(kind)) is not None
                assert known or subclasses, f"{module.name}.{name} would be a bare 500"


def test_codes_are_words_and_statuses_are_errors() -> None:
    for _, problem in TABLE:
        assert 400 <= problem.status <= 599
        assert problem.code.replace("_", "").isalpha()
        assert problem.title[0].isupper()
