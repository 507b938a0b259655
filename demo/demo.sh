#!/usr/bin/env bash
# The main job in one picture: a program under a memory quota, two programs that share one card's memory, and its time.
# On the GPU where there is a driver, else on the simulator; the first line says which.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
vgpu=$build/vgpu
demo=$build/demo/demo
work=$(mktemp -d /tmp/vgpu-demo.XXXXXX)
trap 'rm -rf "$work"' EXIT
export VGPU_RUNTIME_DIR=$work/run
unset VGPU_INSTANCE LD_PRELOAD

if [ "${DEMO_SIM:-}" != 1 ] && card=$("$demo" card 2>/dev/null); then
    echo "On a real card: $card"
else
    export LD_LIBRARY_PATH=$build/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export SIMGPU_STATE=$work/simgpu SIMGPU_MEM=${SIMGPU_MEM:-24G} VGPU_ARENA_DIR=$work
    echo "On simgpu, the simulated driver (no GPU is used): $("$demo" card)"
fi
"$vgpu" run -- true # says why where vgpu cannot run; below, what it says of each refusal is left out

echo
echo "A program under a quota of 4 GiB:  vgpu run --mem 4G -- demo ways"
"$vgpu" run --mem 4G -- "$demo" ways 2>/dev/null

echo
echo "Two programs at once on this card:  vgpu run --name alice --mem 4G -- ...   vgpu run --name bob --mem 2G -- ..."
mkdir "$work/meet"
"$vgpu" run --name alice --mem 4G -- "$demo" tenant alice "$work/meet" 2>/dev/null &
alice=$!
"$vgpu" run --name bob --mem 2G -- "$demo" tenant bob "$work/meet" 2>/dev/null &
bob=$!
for _ in $(seq 100); do
    if [ -e "$work/meet/alice.full" ] && [ -e "$work/meet/bob.full" ]; then
        echo
        echo "Meanwhile, from another terminal:  vgpu ps"
        "$vgpu" ps | sed 's/^/  /'
        break
    fi
    sleep 0.1
done
touch "$work/meet/go"
status=0
wait "$alice" || status=1
wait "$bob" || status=1

echo
echo "A third of the card's time:  vgpu run --cores 33 -- busy"
"$vgpu" run --cores 33 -- "$build/demo/busy" carol 1.5 || status=1

echo
echo "Two at once, in turns, one with three times the weight:  vgpu run --weight 100 -- ...   vgpu run --weight 300 -- ..."
"$vgpu" run --name alice --weight 100 -- "$build/demo/busy" alice 2 &
alice=$!
"$vgpu" run --name bob --weight 300 -- "$build/demo/busy" bob 2 &
bob=$!
wait "$alice" || status=1
wait "$bob" || status=1
exit "$status"
