"""Appends to a queue of any layout until it is killed: URL PARTITIONS ROWS, options as JSON.

Each append has so many rows, of all partitions; its number is printed once it is durable.
"""

import json
import sys
from itertools import count

from support.contract.layouts import Layout


def main() -> None:
    url, partitions, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    layout = Layout("", url, partitions or None, json.loads(sys.argv[4]))
    keys = {"key_columns": ["n"]} if partitions else {}
    with layout.open(**keys) as queue:
        first = sum(queue.ends().values()) // rows
        for number in count(first):
            queue.append(range(number * rows, (number + 1) * rows))
            print(number, flush=True)


if __name__ == "__main__":
    main()
