#!/usr/bin/env bash
# Runs troupe chaos on mutants of the actors: each *.patch here breaks one thing, and a rule has to
# find it. The product is not changed: a patch is applied to a copy, which go build overlays.
#
#   tests/mutants/run.sh               # all
#   tests/mutants/run.sh stop-older    # some, by name
#
# Prints for each the rule that was violated and the shortest case that was found. Ends with 1 if a
# mutant was not found, or if a patch no longer applies.
set -uo pipefail
cd "$(dirname "$0")/../.."
here=tests/mutants
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ $# -gt 0 ] || set -- $(cd $here && ls ./*.patch | sed 's|^\./||; s|\.patch$||')
missed=0
for name; do
  patch=$here/$name.patch
  dir=$scratch/$name
  mkdir -p "$dir"
  entries=
  for file in $(sed -n 's|^+++ b/||p' "$patch"); do
    mkdir -p "$dir/$(dirname "$file")"
    cp "$file" "$dir/$file"
    entries+="${entries:+,}\"$PWD/$file\":\"$dir/$file\""
  done
  if ! (cd "$dir" && patch -s -p1 --fuzz=0 <"$OLDPWD/$patch"); then
    echo "$name: the patch no longer applies"
    missed=1
    continue
  fi
  echo "{\"Replace\":{$entries}}" >"$dir/overlay.json"
  go build -overlay "$dir/overlay.json" -o "$dir/troupe" ./cmd/troupe || { missed=1; continue; }
  begin=$SECONDS
  if out=$("$dir/troupe" chaos seeds 1..1000 --json --shrink 5s 2>/dev/null) && out=$("$dir/troupe" chaos sweep --json --shrink 5s 2>/dev/null); then
    echo "$name: NOT FOUND after $((SECONDS - begin)) s ($(head -1 "$patch"))"
    missed=1
    continue
  fi
  echo "$name: $(head -1 "$patch")"
  echo "$out" | sed -n 's|.*"rule": "\(.*\)",|  rule \1|p; s|.*"case": "\(.*\)".*|  case \1|p' | sed 's/\\u003d/=/g'
  echo "  after $((SECONDS - begin)) s"
done
exit $missed
