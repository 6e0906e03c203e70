#!/bin/sh
# A walk through Tacit on the embedded graph, one command a step. `make demo` runs it.
set -eu

step() {
    printf '\n\033[1m%s\033[0m\n$ %s\n' "$1" "$2"
    sh -c "$2"
}

step "The graphs that come with Tacit" "tacit data list"
