#!/bin/sh
# A walk through Tacit on the embedded graph, one command a step. `make demo` runs it.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

step() {
    printf '\n\033[1m%s\033[0m\n$ %s\n' "$1" "$2"
    sh -c "$2"
}

step "The graph that comes with Tacit" "tacit data describe world"

printf 'France\tborders\tSpain\nFrance borders Italy\n' > broken.tsv
step "A file with a mistake in it" "tacit data describe broken.tsv || true"

step "How a question would be answered: neighbours of neighbours of France, but not its own" \
    "tacit plan --graph world '?c : exists ?x . borders(France, ?x) & borders(?x, ?c) & !borders(France, ?c)'"

step "A link predictor for the graph" "tacit train world --out world-run --epochs 30 --device cpu"
