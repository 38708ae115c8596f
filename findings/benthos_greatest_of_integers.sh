#!/usr/bin/env bash
# benthos 4.60.0 (Go), the engine of Redpanda Connect: integers in its mapping language, Bloblang, where a literal and `==` know all 64
# bits. A guess: the greatest of a list is one of its values, a sorted list is in order, and sums of integers are exact or raise.
#
# Seen: `max`, `min`, `sum` and `sort` go through floats. The greatest of 2^53 + 1 and 2^53 is 2^53 as a float; the two stay in the order
# in which they were; for times in nanoseconds the greatest is one that no message has. `+` is exact, and wraps beyond 64 bits.
# `parse_json` gives floats unless it is asked for `use_number: true`, and `.number()` of a text is a float. So "the last message" by its
# time is not found again.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
mkdir "$folder/main"
cd "$folder/main"
export GOMODCACHE="$folder/modules" GOCACHE="$folder/cache" GOFLAGS=-mod=mod
go mod init findings 2> /dev/null
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/redpanda-data/benthos/v4/public/bloblang"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
)

func main() {
	for _, mapping := range os.Args[1:] {
		executor, err := bloblang.Parse("root = " + mapping)
		if err != nil {
			panic(err)
		}
		value, err := executor.Query(map[string]any{})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s = %v %T\n", mapping, value, value)
	}
}
GO
go get github.com/redpanda-data/benthos/v4/public/service@v4.60.0 2> log || { cat log; exit 1; }
go mod tidy 2> log || { cat log; exit 1; }
go build -p 2 -o mappings .
./mappings '9007199254740993 == 9007199254740992' '[9007199254740993].index(0)' '[9007199254740993, 9007199254740992].sort()' \
    '[9007199254740993, 9007199254740992].max()' '[1700000000123456789].max().int64()' '[9007199254740993, 1].sum()' \
    '9007199254740993 + 1' '9223372036854775807 + 1' '"9007199254740993".parse_json()' '"9007199254740993".parse_json(use_number: true) + 0' \
    '"9007199254740993".number()' | tee seen
diff seen - <<'SEEN'
9007199254740993 == 9007199254740992 = false bool
[9007199254740993].index(0) = 9007199254740993 int64
[9007199254740993, 9007199254740992].sort() = [9007199254740993 9007199254740992] []interface {}
[9007199254740993, 9007199254740992].max() = 9.007199254740992e+15 float64
[1700000000123456789].max().int64() = 1700000000123456768 int64
[9007199254740993, 1].sum() = 9.007199254740992e+15 float64
9007199254740993 + 1 = 9007199254740994 int64
9223372036854775807 + 1 = -9223372036854775808 int64
"9007199254740993".parse_json() = 9.007199254740992e+15 float64
"9007199254740993".parse_json(use_number: true) + 0 = 9007199254740993 int64
"9007199254740993".number() = 9.007199254740992e+15 float64
SEEN
