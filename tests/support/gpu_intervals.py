"""Unions of intervals, for tests that compute a second time what GPUs did."""


def union(intervals):
    """Disjoint, ascending."""
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > begin:
            merged.append([begin, end])
    return merged


def length(intervals):
    return sum(end - begin for begin, end in intervals)
