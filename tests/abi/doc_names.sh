#!/bin/bash
# What the documents name exists: paths, source files, functions, tests, and where links lead.
# usage: doc_names.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
build=$(realpath "$2")
cd "$1"
failed=0
fail() { echo "FAIL: $*"; failed=1; }

mapfile -t pages < <(printf '%s\n' README.md CONTRIBUTING.md docs/*.md && find src -name '*.md')
spans() { grep -oHE "\`$1\`" "${pages[@]}" | tr -d '\140'; }

while IFS=: read -r page path; do
    compgen -G "$path" >/dev/null || fail "$page: there is no $path"
done < <(spans '(src|sim|spec|abi|tests|scripts|bench|cmake|demo|man|docs)/[A-Za-z0-9_./*-]*')
files=$(find . -name build -prune -o -type f -print)
while IFS=: read -r page file; do
    grep -q "/$file\$" <<<"$files" || fail "$page: there is no $file"
done < <(spans '[a-z0-9_]+\.[ch]')
while IFS=: read -r page function; do
    grep -rqw "${function%%(*}" src || fail "$page: src has no $function"
done < <(spans '[a-z0-9]+_[a-z0-9_]+\(\)' | grep -vE '^docs/measurements|:pthread_')
while IFS=: read -r page path; do
    [ -e "$(dirname "$page")/$path" ] || fail "$page: there is no $path"
done < <(grep -oHE '\]\([^):#]+' "${pages[@]}" sim/README.md | sed 's/\](//')

# Some tests are there only where their libraries are; of those nothing is known.
tests=$(ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p')
while IFS=: read -r page test; do
    subject=${test%%[._]*}
    grep -q "^${subject}[._]" <<<"$tests" || continue
    pattern=${test//./\\.}
    grep -q "^${pattern//\*/.*}\$" <<<"$tests" || fail "$page: there is no test $test"
done < <(spans '(unit|sim|guard|abi|cli)[._][a-z0-9_.*]+' | grep -vE '\.(c|h|sh|py|def|bats|md)$')

[ $failed = 0 ] && echo "all names exist"
exit $failed
