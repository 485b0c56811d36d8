#!/bin/bash
# Tests the table of `tardy history --table` with DuckDB, polars and pandas: it runs the lines of docs/history.md unchanged, checks that the three programs agree,
# and that a table which each of them writes is read back as the same history.
# It also runs the program of docs/scripts.md unchanged.
# Needs duckdb, polars, pandas and matplotlib in the Python environment at $VENV.
#     tables.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
document=$(cd "$(dirname "$0")/../.." && pwd)/docs/history.md
mkdir -p "$folder/bin"
ln -sf "$tardy" "$folder/bin/tardy"
# Python's package has only DuckDB's module and not its program; the module accepts the same statements.
printf '#!/bin/sh\nexec "%s/bin/python" -c "import duckdb, sys; answer = duckdb.sql(sys.argv[2]); print(answer)" "$@"\n' "$VENV" > "$folder/bin/duckdb"
chmod +x "$folder/bin/duckdb"
export PATH=$folder/bin:$VENV/bin:$PATH
cd "$folder"

for board in arm1 x86; do
    for build in 6.12.8 6.12.9; do
        tardy run --for 2s --period 100us --load memory --label build=$build --label board=$board --quiet --out "nightly/$board-$build" > said || [ $? -eq 4 ]
    done
done
tardy history nightly --table made.csv.gz > said || [ $? -eq 4 ]
duckdb -c "select 'runs: ' || count(distinct folder) as runs from 'made.csv.gz'" | grep 'runs: 4 ' > /dev/null
# The document's commands select kernels 6.12, so the table claims this kernel.
duckdb -c "copy (select * replace ('6.12.9' as kernel) from 'made.csv.gz') to 'all.csv.gz'" > said

# Runs each line of the document that uses the table, in a shell or in Python.
grep '^    duckdb -c ' "$document" | sed 's/^    //' > lines.sh
[ "$(wc -l < lines.sh)" = 2 ]
{ bash -euo pipefail lines.sh || [ $? -eq 4 ]; } | tee said
python3 - "$document" <<'PYTHON'
import subprocess
import sys

import duckdb
import pandas
import polars

lines = [line.strip() for line in open(sys.argv[1])]
of_polars = [eval(line) for line in lines if line.startswith("polars.")]
of_pandas = [eval(line) for line in lines if line.startswith("pandas.")]
assert len(of_polars) == len(of_pandas) == 1, (of_polars, of_pandas)
medians = dict(of_polars[0].iter_rows())
rows = duckdb.sql("select board, median(p99_9), max(max) from 'all.csv.gz' where load = 'memory' group by board").fetchall()
assert {board: median for board, median, _ in rows} == medians and len(medians) == 2, (rows, medians)
table = pandas.read_csv("all.csv.gz")
worst = table[table.load == "memory"].groupby("board")["max"].max().to_dict()
assert {board: most for board, _, most in rows} == worst, (rows, worst)
assert list(of_pandas[0].index.names) == ["load", "build"] and of_pandas[0].notna().all(), of_pandas[0]

# The tables that they write are the same history, and a user's own columns are kept.
polars.read_csv("all.csv.gz").with_columns(polars.lit("mine").alias("rack")).write_csv("polars.csv")
table.to_csv("pandas.csv.gz", index=False)
rows = lambda name: sorted(duckdb.sql(f"select * from '{name}'").fetchall(), key=repr)
for name in ["all.csv.gz", "polars.csv", "pandas.csv.gz"]:
    history = subprocess.run(["tardy", "history", name, "--table", f"again-{name}"], capture_output=True, text=True)
    assert history.returncode in (0, 4) and history.stdout.startswith("2 builds of 2 boards, 8 numbers"), history
    assert rows(f"again-{name}") == rows("all.csv.gz"), name
print(history.stdout)
PYTHON

tardy run --for 3s --load hackbench --quiet --out board7 > said || [ $? -eq 4 ]
tardy export board7 --format csv -o board7.csv
sed -n '/^    import pandas$/,/savefig/ { s/^    //; p }' "$(dirname "$document")/scripts.md" > program.py
[ "$(grep -c . program.py)" = 10 ]
MPLBACKEND=Agg python3 program.py | tee said
grep hackbench said > /dev/null
[ "$(head -c 4 board7.png | tail -c 3)" = PNG ]
