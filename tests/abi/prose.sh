#!/bin/bash
# Rules about the documents: lines fit 100 columns, and sentences have at most 25 words.
# usage: prose.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# docs/cli.md is made by the build.
mapfile -t documents < <(find . -name '*.md' -not -path './build*' -not -path './.git/*' -not -path './docs/cli.md' | sort)
mapfile -t pages < <(printf '%s\n' ./README.md ./CONTRIBUTING.md docs/*.md | grep -vE '^docs/(cli|measurements)\.md$')

# Tables, code and addresses may be wider.
long=$(LC_ALL=C awk '
    FNR == 1 { fenced = 0 }
    /^```/ { fenced = !fenced }
    fenced || /^```/ || /^ *\|/ || /^(    |\t)/ { next }
    { line = $0; gsub(/\]\([^)]*\)/, "]", line); gsub(/<?https?:[^ ]*/, "", line)
      gsub(/[\300-\377][\200-\277]*/, "x", line) }
    length(line) > 100 { print FILENAME ":" FNR ": " length(line) " columns" }' "${documents[@]}")
[ -z "$long" ] || fail "over 100 columns:"$'\n'"$long"

# A code span is one word; so is what has no blank in it, if it has a letter or a digit.
sentences=$(awk '
    function words(text,    part, count, i, n) {
        count = split(text, part, /[ \t]+/)
        for (i = 1; i <= count; i++) n += part[i] ~ /[A-Za-z0-9]/
        return n
    }
    function judge(text,    sentence, count, i) {
        gsub(/`[^`]*`/, "span", text)
        gsub(/\]\([^)]*\)/, "]", text)
        gsub(/[*\\]/, "", text)
        gsub(/[.?!][)"\x27]? /, "&\n", text)
        count = split(text, sentence, "\n")
        for (i = 1; i <= count; i++)
            if (words(sentence[i]) > 25)
                print page ":" first ": " words(sentence[i]) " words: " substr(sentence[i], 1, 70) "..."
    }
    function end() { if (paragraph != "") judge(paragraph); paragraph = "" }
    FNR == 1 { end(); fenced = 0; in_list = 0 }
    /^```/ { end(); fenced = !fenced; next }
    fenced { next }
    /^[ \t]*$/ { end(); blank = 1; next }
    /^(    |\t)/ && (blank || in_code) && !in_list { in_code = 1; next }
    { in_code = 0 }
    /^ *\|/ { end(); page = FILENAME; first = FNR; cells = $0; gsub(/`[^`]*`/, "span", cells)
              count = split(cells, cell, "|"); for (c = 1; c <= count; c++) judge(cell[c]); blank = 0; next }
    /^#/ { end(); in_list = 0; blank = 0; next }
    /^ *([-*]|[0-9]+\.) / { end(); in_list = 1 }
    /^[^ ]/ && !/^([-*]|[0-9]+\.) / && blank { in_list = 0 }
    { if (paragraph == "") { page = FILENAME; first = FNR }; blank = 0; sub(/^[ \t]+/, ""); paragraph = paragraph $0 " " }
    END { end() }' "${pages[@]}")
[ -z "$sentences" ] || fail "sentences of more than 25 words:"$'\n'"$sentences"

lines=$(wc -l <README.md)
[ "$lines" -le 150 ] || fail "README.md has $lines lines"
lines=$(wc -l <docs/ARCHITECTURE.md)
[ "$lines" -le 120 ] || fail "docs/ARCHITECTURE.md has $lines lines"

[ $failed = 0 ] && echo "the documents are kept"
exit $failed
