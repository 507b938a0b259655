#!/usr/bin/env bash
# run.sh [BUILD]: what only a real card can show. Needs an NVIDIA driver; PyTorch where there is one. Takes about two
# minutes, prints a line per check and ends with "N passed, N failed". Changes no setting of the card.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
vgpu=$build/vgpu
quota_mib=${QUOTA_MIB:-8192}
passed=0
failed=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

command -v nvidia-smi >/dev/null || { echo "skip: no nvidia-smi here, so nothing to test"; exit 77; }

verdict() { # status, line
    if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    echo "$2"
}

# One of the torch modes; $2 names the allocator and goes into PYTORCH_CUDA_ALLOC_CONF.
torch_mode() {
    local line status
    line=$(PYTORCH_CUDA_ALLOC_CONF=$2 timeout 180 "$vgpu" run --mem "${quota_mib}M" -- \
        python3 tests/gpu/torch_modes.py "$1" "$quota_mib" 2>"$out/err")
    status=$?
    [ -n "$line" ] || line="FAILED  torch $1: $(tail -n 3 "$out/err" | tr '\n' ' ')"
    verdict $status "$line${2:+ [$2]}"
}

# One of the modes of the driver API; what a run inside a run is started with is in $VGPU.
driver_mode() {
    local line
    line=$(VGPU=$vgpu timeout 120 "$vgpu" run --mem "${quota_mib}M" -- python3 tests/gpu/driver_modes.py "$1" "$quota_mib" 2>"$out/err")
    verdict $? "${line:-FAILED  driver $1: $(tail -n 3 "$out/err" | tr '\n' ' ')}"
}

# HAMi's monitor reads from its cache file how busy a process keeps the device.
hami_utilization() {
    local busy read
    CUDA_DEVICE_MEMORY_SHARED_CACHE=$out/cache CUDA_DEVICE_MEMORY_LIMIT=${quota_mib}m LD_PRELOAD=$(realpath "$build")/libvgpu.so \
        timeout 60 python3 tests/gpu/torch_modes.py busy "$quota_mib" >"$out/busy" &
    busy=$!
    for _ in $(seq 300); do
        read=$(python3 tests/sim/cases/hami_read.py "$out/cache" 2>/dev/null)
        [[ $read != *'"sm": '[1-9]* ]] || break
        sleep 0.1
    done
    kill $busy
    wait $busy
    echo "        $read"
    [[ $read == *'"sm": '[1-9]* ]]
}

# nvidia-smi under a quota differs from the bare one in memory and process fields only. Clocks, power, temperature and
# the like move by themselves, so a field counts as stable where two bare runs agree.
smi_fields() {
    nvidia-smi -q >"$out/bare1"
    nvidia-smi -q >"$out/bare2"
    "$vgpu" run --mem "${quota_mib}M" -- nvidia-smi -q >"$out/under" || return 1
    diff "$out/bare1" "$out/bare2" | grep '^[<>]' | cut -d: -f1 | sort -u >"$out/moving"
    diff "$out/bare1" "$out/under" | grep '^[<>]' | grep -vFf <(sed 's/^[<>] *//; s/ *$//' "$out/moving" | sort -u) |
        grep -vE 'Total|Used|Free|Reserved|Process|PID|Timestamp|Power Draw|Temp|Clocks' >"$out/other"
    [ ! -s "$out/other" ]
}

smi_query() {
    local line
    line=$("$vgpu" run --mem "${quota_mib}M" -- nvidia-smi --query-gpu=memory.total,name --format=csv,noheader,nounits | head -n 1)
    [ "${line%%,*}" -eq "$quota_mib" ] && [ "${line#*, }" = "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)" ]
}

check() { # text, command...
    local text=$1 status
    shift
    "$@"
    status=$?
    verdict $status "$([ $status -eq 0 ] && echo 'ok     ' || echo 'FAILED ') $text"
}

check "nvidia-smi -q differs in memory and processes only" smi_fields
[ ! -s "$out/other" ] || cat "$out/other"
check "nvidia-smi --query-gpu shows the quota as the total" smi_query

for mode in checkpoint exported ipc nested killed; do
    driver_mode $mode
done

if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    torch_mode oom ""
    torch_mode oom expandable_segments:True
    torch_mode oom backend:cudaMallocAsync
    torch_mode graphs ""
    torch_mode graphs expandable_segments:True
    torch_mode graphs backend:cudaMallocAsync
    torch_mode workers ""
    torch_mode ranks ""
    torch_mode smi ""
    check "HAMi's monitor sees a busy process" hami_utilization
else
    echo "skipped torch: not installed, or sees no card"
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
