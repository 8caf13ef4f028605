#!/bin/sh
# compile.sh MODELWHEEL SPEC HEADER FILES... -- OUTPUTS... - compiles a model and takes from its bundle what Bazel asks for.
#
# FILES are pairs: a directory of the model, and a file to put there. OUTPUTS are pairs: what is wanted, and where.
# HEADER is the place of the class's header below `include`.
set -eu
modelwheel=$1 spec=$2 header=$3
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -L "$spec" "$work/spec.json"
while [ "$1" != -- ]; do
  mkdir -p "$work/model/$1"
  cp -L "$2" "$work/model/$1/"
  shift 2
done
shift

# What it says matters where it fails.
if ! "$modelwheel" bundle "$work/spec.json" --out "$work/bundles" >"$work/said" 2>&1; then
  cat "$work/said" >&2
  exit 1
fi
bundle=$(echo "$work"/bundles/*/)
while [ $# -gt 0 ]; do
  case $1 in
    include) mkdir -p "$2" && cp -R "$bundle/include/." "$2/" ;;
    header) cp "$bundle/include/$header" "$2" ;;
    library) cp "$bundle"/lib/*/lib*.a "$2" ;;
    reference) cp "$bundle/tests/reference.bin" "$2" ;;
    reference_header) cp "$bundle/tests/reference.h" "$2" ;;
    *) cp "$bundle"/tests/*_"$1".c "$2" ;;
  esac
  shift 2
done
