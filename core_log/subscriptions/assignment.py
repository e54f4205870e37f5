"""Which member gets which partition: even, sticky, and the same whoever computes it.

One pure function over names and numbers. Knows nothing of sessions, leases or generations.
"""

from collections.abc import Collection, Mapping


def spread(partitions: int, members: Collection[str], holders: Mapping[int, str]) -> dict[int, str]:
    """For each partition one of `members`; nothing where there is none.

    Even: the numbers of any two members differ by one at most. Sticky: of what a member holds it
    keeps as much as its share allows, so that no spread that is even moves fewer. Deterministic:
    equals go by name, and the lowest partitions stay.
    """
    if not members:
        return {}
    held: dict[str, list[int]] = {name: [] for name in sorted(members)}
    for partition in range(partitions):
        holder = held.get(holders.get(partition, ""))
        if holder is not None:
            holder.append(partition)
    share, rest = divmod(partitions, len(held))
    # Whoever holds most already gets one of the greater shares: then the least has to move.
    by_load = sorted(held, key=lambda name: (-len(held[name]), name))
    shares = {name: share + (place < rest) for place, name in enumerate(by_load)}
    spread_out = {
        partition: name for name, mine in held.items() for partition in mine[: shares[name]]
    }
    wanting = [name for name in held for _ in range(shares[name] - len(held[name]))]
    free = (partition for partition in range(partitions) if partition not in spread_out)
    return spread_out | dict(zip(free, wanting, strict=True))
