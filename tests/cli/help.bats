# Help, versions, unknown words, and what is made from the same table.
load common.bash

@test "help of every command, in every way" {
    local command
    for command in run ps pause resume doctor version help; do
        expect 0 "$vgpu" help $command
        [[ $output == "Usage: vgpu $command"* ]]
        local text=$output
        expect 0 "$vgpu" $command --help
        is "$text"
        expect 0 "$vgpu" $command -h
        is "$text"
        awk 'length > 100 { exit 1 }' <<<"$output" || fail "a line is too long"
        expect 0 "$vgpu" help
        [[ $output == *"  $command "* ]]
    done
    expect 0 "$vgpu" --help
    [[ $output == "Usage: vgpu "* ]]
    expect 2 "$vgpu"
    says "Usage: vgpu"
    [ -z "$output" ]
}

@test "the version" {
    expect 0 "$vgpu" --version
    [[ $output =~ ^vgpu\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    local text=$output
    expect 0 "$vgpu" version
    is "$text"
    expect 0 "$vgpu" -V
    is "$text"
}

@test "unknown commands and options name the nearest" {
    expect 2 "$vgpu" rum
    says '"rum"' "did you mean run?"
    expect 2 "$vgpu" docter
    says "did you mean doctor?"
    expect 2 "$vgpu" zzzzzz
    [[ $stderr != *"did you mean"* ]]
    expect 2 "$vgpu" help rum
    says "did you mean run?"
    expect 2 "$vgpu" --versoin
    says "did you mean --version?"
    expect 2 "$vgpu" -x
    says "-x"
}

@test "man pages and completion have every option, and are well-formed" {
    local docs=$VGPU_BUILD/generated option page
    for page in vgpu.1 vgpu-run.1 vgpu-ps.1 vgpu-pause.1 vgpu-resume.1 vgpu-doctor.1 libvgpu.7; do
        grep -q '^\.TH ' "$docs/$page"
        if command -v groff >/dev/null; then
            [ -z "$(groff -man -Tutf8 -ww -z "$docs/$page" 2>&1)" ] || fail "$(groff -man -Tutf8 -ww -z "$docs/$page" 2>&1)"
        fi
    done
    for option in $("$vgpu" help run | grep -oE '^  (-., )?--[a-z-]+' | grep -o -- '--.*'); do
        grep -q -- "${option//-/\\\\-}" "$docs/vgpu-run.1" || fail "$option is not in vgpu-run.1"
        grep -q -- "$option" "$docs/vgpu.bash" || fail "$option is not in vgpu.bash"
        grep -q -- "$option" "$docs/_vgpu" || fail "$option is not in _vgpu"
        grep -q -- "-l ${option#--} " "$docs/vgpu.fish" || fail "$option is not in vgpu.fish"
        grep -q -- "$option" "$docs/cli.md" || fail "$option is not in cli.md"
    done
    bash -n "$docs/vgpu.bash"
    if command -v zsh >/dev/null; then zsh -n "$docs/_vgpu"; fi
    if command -v fish >/dev/null; then fish -n "$docs/vgpu.fish"; fi
}

@test "docs/cli.md is what the build makes" {
    [ -z "${GOLDEN:-}" ] || cp "$VGPU_BUILD/generated/cli.md" "$VGPU_SOURCE/docs/cli.md"
    cmp "$VGPU_BUILD/generated/cli.md" "$VGPU_SOURCE/docs/cli.md" || fail "make docs/cli.md anew, see CONTRIBUTING.md"
}

@test "bash completion" {
    complete_words()
    {
        PATH=$VGPU_BUILD:$PATH bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vgpu; echo "${COMPREPLY[@]}"' \
            "$VGPU_BUILD/generated/vgpu.bash" "$@"
    }
    [ "$(complete_words vgpu d)" = doctor ]
    [ "$(complete_words vgpu run --m)" = --mem ]
    [ "$(complete_words vgpu run --sim --ho)" = --host-mem ]
    [ "$(complete_words vgpu run --gpu au)" = auto ]
    [ "$(complete_words vgpu run --gpu al)" = all ]
    [ "$(complete_words vgpu run --policy ad)" = adaptive ]
    [ "$(complete_words vgpu run --cores-policy '')" = "hard elastic" ]
    [ "$(complete_words vgpu run --cores 30 --pol)" = --policy ]
    [ "$(complete_words vgpu help ru)" = run ]
    touch some-file
    [ "$(complete_words vgpu run --trace some)" = some-file ]
    [ "$(complete_words vgpu run cat some)" = some-file ]
    [ "$(complete_words vgpu run -- cat --mem some)" = some-file ]
    [[ $(complete_words vgpu run -- ca) == *cat* ]]
}

@test "help fits any terminal, 60 columns and more" {
    local columns command
    for columns in 60 80 100 200; do
        for command in vgpu run ps pause resume doctor version help; do
            COLUMNS=$columns expect 0 "$vgpu" help $command
            awk -v most=$((columns < 100 ? columns : 100)) 'length > most { print; exit 1 }' <<<"$output" ||
                fail "$command at $columns columns: a line is too long"
        done
    done
    COLUMNS=20 expect 0 "$vgpu" help resume
    is "$(COLUMNS=60 "$vgpu" help resume)"
    # Without a terminal 80.
    for command in "" wide -5; do
        COLUMNS=$command expect 0 "$vgpu" help resume
        is "$(COLUMNS=80 "$vgpu" help resume)"
    done
}

# To change what people read, see CONTRIBUTING.md: the files are made anew by GOLDEN=1.
@test "help of all commands at 60, 80 and 100 columns is what is kept here" {
    local columns command
    for columns in 60 80 100; do
        for command in "" run ps pause resume doctor version help; do
            # shellcheck disable=SC2086
            COLUMNS=$columns "$vgpu" help $command || fail "help $command"
            echo
        done >help_$columns.txt
        golden help_$columns.txt
    done
}

# on_terminal COLUMNS COMMAND...: its output on a terminal of that width, carriage returns left out.
on_terminal()
{
    local columns=$1
    shift
    python3 - "$columns" "$@" <<'PYTHON'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.environ.pop("COLUMNS", None)
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[2], sys.argv[2:])
text = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    text += part
os.waitpid(pid, 0)
sys.stdout.buffer.write(text.replace(b"\r\n", b"\n"))
PYTHON
}

@test "a terminal's own width, colour on it alone, and NO_COLOR" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    local escape=$'\033' plain
    run on_terminal 70 "$vgpu" help resume
    [[ $output == *"$escape[1mOptions:$escape[0m"* ]] || fail "no colour: $output"
    plain=$(sed "s/$escape\[[0-9]*m//g" <<<"$output")
    [ "$plain" = "$(COLUMNS=70 "$vgpu" help resume)" ] || fail "not as at 70 columns: $plain"
    NO_COLOR=1 run on_terminal 70 "$vgpu" help resume
    [ "$output" = "$plain" ] || fail "NO_COLOR: $output"
    run on_terminal 70 "$vgpu" doctor
    [[ $output == *"$escape[32mok"* ]] || fail "doctor has no colour: $output"
    [[ $("$vgpu" doctor) != *"$escape"* ]] || fail "colour without a terminal"
    mkfifo hold
    "$vgpu" run --name stays sh -c 'echo >up; read line <hold' 3>&- &
    wait_for test -e up
    run on_terminal 70 "$vgpu" ps
    [[ $output == "$escape[1mINSTANCE$escape[0m "*$'\n'"stays "* ]] || fail "ps has no colour: $output"
    [ "$(sed "s/$escape\[[0-9]*m//g" <<<"$output")" = "$(COLUMNS=70 "$vgpu" ps)" ] || fail "ps: not as at 70 columns: $output"
    NO_COLOR=1 run on_terminal 70 "$vgpu" ps
    [ "$output" = "$(COLUMNS=70 "$vgpu" ps)" ] || fail "NO_COLOR: $output"
    echo >hold
    wait
}

@test "doctor fits: no line that could be broken is too long" {
    local columns
    for columns in 60 80 100; do
        COLUMNS=$columns run "$vgpu" doctor
        # A word that is longer than its line, such as a path, stays whole.
        awk -v most=$columns 'length > most && NF > 1 && $1 != "->" && $0 !~ /^ *[^ ]+$/ { print; exit 1 }' <<<"$output" ||
            fail "doctor at $columns columns: a line is too long"
    done
}

@test "the command alone shows the commands, and no prose" {
    expect 2 "$vgpu"
    [ "$(sed -n '1s/ .*//p;3p' <<<"$stderr")" = $'Usage:\nCommands:' ] || fail "$stderr"
    says "  run " "  doctor "
    [ "$(wc -l <<<"$stderr")" -le 20 ] || fail "long: $stderr"
    expect 0 "$vgpu" help
    [ "$(sed -n 3p <<<"$output")" = Commands: ] || fail "$output"
}

@test "the help of a command is no longer than 60 lines at 100 columns, options before prose" {
    local command
    for command in run ps pause resume doctor version help; do
        COLUMNS=100 expect 0 "$vgpu" help $command
        [ "$(wc -l <<<"$output")" -le 60 ] || fail "$command: $(wc -l <<<"$output") lines"
        [[ $(sed -n 3p <<<"$output") == @(Arguments|Options): ]] || fail "$command: $output"
    done
}

@test "what is installed can be uninstalled, and its documents link to each other" {
    local manifest=$VGPU_BUILD/install_manifest.txt root=$PWD/root document link
    mkdir build
    [ ! -f "$manifest" ] || cp "$manifest" kept
    DESTDIR=$root cmake --install "$VGPU_BUILD" --prefix /usr >/dev/null
    mv "$manifest" build/
    [ ! -f kept ] || mv kept "$manifest"
    [ -x root/usr/bin/vgpu ] && [ -f root/usr/share/man/man7/libvgpu.7 ]
    for document in root/usr/share/doc/vgpu/{,docs/,sim/}*.md; do
        for link in $(grep -oE '\]\([^)#:]+\)' "$document" | tr -d '])('); do
            [ -e "$(dirname "$document")/$link" ] || fail "$document: $link is not installed"
        done
    done
    # The manual's pointer, and what is not vgpu's own.
    [ -f root/usr/share/doc/vgpu/sim/README.md ]
    touch root/usr/bin/other
    DESTDIR=$root "$VGPU_SOURCE/scripts/uninstall.sh" build
    [ "$(find root -type f -o -type l)" = root/usr/bin/other ] || fail "left: $(find root -type f -o -type l)"
    [ -z "$(find root -name vgpu)" ] || fail "left: $(find root -name vgpu)"
    run "$VGPU_SOURCE/scripts/uninstall.sh" build
    [ "$status" -eq 1 ]
    [[ $output == *"nothing was installed"* ]]
}
