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
    for option in $("$vgpu" help run | grep -o '^  --[a-z-]*'); do
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
    cmp "$VGPU_BUILD/generated/cli.md" "$VGPU_SOURCE/docs/cli.md" ||
        fail "copy $VGPU_BUILD/generated/cli.md to docs/cli.md"
}

@test "every environment variable that the code reads is in the table" {
    local name
    for name in $(grep -rhoE 'getenv\("[A-Z_0-9]+"\)|setting\("[A-Z_0-9]+"\)' "$VGPU_SOURCE"/src | grep -oE '[A-Z_0-9]{3,}' | sort -u); do
        case $name in
        PATH | LD_PRELOAD | XDG_RUNTIME_DIR) continue ;;
        esac
        grep -q "\"$name\"" "$VGPU_SOURCE/spec/config.def" || fail "$name is not in spec/config.def"
    done
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
