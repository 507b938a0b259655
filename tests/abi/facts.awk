# Reads abi/cuda*.h and writes C statements that print every fact in it: VALUE lines for enumerators and
# macros, SIZE and FIELD lines for types. Built once against abi/cuda*.h and once against cuda.h, the two must agree.

function emit(kind, text) { print "    " kind "(" text ");" }

/^#define CU[A-Z0-9_]+ +0x/ { emit("VALUE", $2); next }
/^CUDA_HANDLE\(/ { split($0, word, /[(,]/); emit("SIZE", word[2]); next }

{
    line = $0
    sub(/\/\*.*\*\//, "", line)
}

# typedefs on one line; handles and forward declarations have no size to compare but that of the pointer
line ~ /^typedef [^{}]*;$/ && line !~ /\(/ {
    n = split(line, word, /[ ;*]+/)
    if (line ~ /^typedef struct [A-Za-z0-9_]+ [A-Za-z0-9_]+;$/)
        next # an incomplete type
    emit("SIZE", word[n - 1])
    next
}

line ~ /^typedef (struct|enum|union) .*\{/ { depth = 1; fields = 0; is_enum = line ~ /enum/ }

is_enum {
    rest = line
    while (match(rest, /CU[A-Za-z0-9_]+ = /)) {
        emit("VALUE", substr(rest, RSTART, RLENGTH - 3))
        rest = substr(rest, RSTART + RLENGTH)
    }
}

depth && !/^typedef/ {
    if (line ~ /\{[^}]*$/)
        depth++
    else if (line ~ /^ *\}/) {
        depth--
        if (depth == 1 && match(line, /\} *[A-Za-z0-9_]+;/)) {
            name = substr(line, RSTART + 1, RLENGTH - 2)
            gsub(/[ ;]/, "", name)
            field[fields++] = name
        }
    } else if (depth == 1 && !is_enum && match(line, /[A-Za-z0-9_]+(\[[0-9]+\])?;/)) {
        name = substr(line, RSTART, RLENGTH - 1)
        sub(/\[.*/, "", name)
        field[fields++] = name
    }
}

match(line, /^(typedef .*)?\} *[A-Za-z0-9_]+;$/) && (depth <= 1) {
    name = line
    sub(/^.*\} */, "", name)
    sub(/;.*/, "", name)
    emit("SIZE", name)
    for (i = 0; i < fields; i++)
        emit("FIELD", name ", " field[i])
    depth = 0
    fields = 0
    is_enum = 0
}
