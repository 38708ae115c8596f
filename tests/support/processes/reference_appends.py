"""Appends to a partitioned queue beside others: PATH FIRST TABLES, of a thousand numbers each."""

import sys

import pyarrow as pa

from cec_store.opening import open_queue


def main() -> None:
    path, first, tables = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    schema = pa.schema([("n", pa.int64())])
    with open_queue(path, "a", schema=schema, partitions=2) as queue:
        for begin in range(first, first + 1000 * tables, 1000):
            queue.append(pa.table([range(begin, begin + 1000)], schema=schema))


if __name__ == "__main__":
    main()
