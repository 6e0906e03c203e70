#!/bin/sh
# A walk through Tacit on the embedded graph, one command a step: `make demo`. Everything is kept in runs/demo.
set -eu

question='?city : borders(Brazil, ?n) & capital_of(?city, ?n) & !speaks(?n, Spanish)'

say() {
    printf '\n\033[1m%s\033[0m\n' "$1"
    shift
    for line in "$@"; do printf '%s\n' "$line"; done
}

step() {
    printf '\033[36m$ %s\033[0m\n' "$1"
    sh -c "$1"
}

say "1. A graph that is missing facts" \
    "world comes with Tacit. One fact in ten, its test split, is kept from everything below."
step "tacit data list"

say "2. A question, and how it would be answered" \
    "Which cities are capitals of a neighbour of Brazil where Spanish is not spoken?"
step "tacit plan --graph world '$question'"

say "3. Train a link predictor: it scores every fact the graph could have (half a minute on 2 cores)"
step "tacit train world --out runs/demo --resume"

say "4. Ask, with its raw scores" \
    "Nothing made the scores of different relations comparable, so their combination is not to be trusted:"
step "tacit ask runs/demo '$question' --unadapted --calibration sigmoid --observed train+valid --top 3 --explain"

say "5. Adapt the scores: two numbers for each relation, learned from questions (twenty seconds)" \
    "The link predictor stays as it is, and the adapter is kept where it is better than none."
step "tacit adapt runs/demo --count 2000 --steps 300 --batch 256"

say "6. Ask again" \
    "Georgetown is the capital of Guyana, but Tacit was not told: that atom is predicted, from a border it knows."
step "tacit ask runs/demo '$question' --observed train+valid --top 3 --explain"

say "7. A mistake is answered with what would work"
step "tacit ask runs/demo '?c : boarders(Brazil, ?c)' || true"

say "That was Tacit. Next:" \
    "  a page to ask on     .venv/bin/tacit serve runs/demo     then open http://127.0.0.1:8000" \
    "  your own graph       .venv/bin/tacit train facts.tsv --out runs/mine     (three columns: head, relation, tail)" \
    "  in Python            import tacit; run = tacit.open('runs/demo'); run.explain('...')" \
    "  to read              README.md, docs/README.md"
