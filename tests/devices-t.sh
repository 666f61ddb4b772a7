#!/bin/sh
# Tests `tidemark devices` without a driver, and over the tests' fake driver.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

# devices ARGUMENT...: print its output and exit status; its messages go to $scratch/said.
devices() {
    tap_printed=$("$tidemark" devices "$@" 2>"$scratch/said")
    tap_status=$?
    echo "$tap_printed $tap_status"
}

plan 40
has_words "$("$tidemark" devices --help)" 'Usage: tidemark devices [--json]' 'devices --help prints its usage'
is "$(devices 0)" ' 2' 'devices takes no arguments'
is "$(devices --free)" ' 2' 'an unknown option of devices is wrong use'

# An empty library in place of the driver's, so that a machine with a driver has none either.
mkdir "$scratch/none"
: >"$scratch/none/libcuda.so.1"
LD_LIBRARY_PATH=$scratch/none
export LD_LIBRARY_PATH
is "$(devices)" ' 1' 'without a driver devices prints nothing, and exits with 1'
has_words "$(cat "$scratch/said")" 'tidemark devices: driver: ' 'without a driver devices says why'
has_words "$(devices --json)" '{"format_version":1,"driver_version":null,"reason":"driver: ' \
    'without a driver the object has the reason'
has_words "$(devices --json)" '"devices":[]} 1' 'without a driver the object has no devices'

is "$(devices --measure)" ' 1' 'without a driver nothing can be measured, and the exit status is 1'

fake=$top_builddir/tests/fake-cuda/.libs
if ! test -e "$fake/libcuda.so.1"; then
    skip 25 'there is no fake driver in this build'
    done_testing
fi
LD_LIBRARY_PATH=$fake
FAKE_CUDA_DEVICES=2
FAKE_CUDA_MEMORY=1G
export FAKE_CUDA_DEVICES FAKE_CUDA_MEMORY
seen=$(devices)
has_words "$seen" 'NVIDIA driver of CUDA 13.0' 'the table of devices begins with the version of the driver'
is "$(echo "$seen" | grep -c '^ *[01] .* 1 GiB .* yes ')" 2 'the table of devices has a line for each device'
has_words "$seen" ' 0' 'with a driver devices exits with 0'
seen=$(devices --json)
has_words "$seen" '"driver_version":"13.0","reason":null' 'the object has the version of the driver'
has_words "$seen" '"device":0,' 'the object has the first device'
has_words "$seen" '"total_bytes":1073741824,"free_bytes":' 'the object has the memory of the first device'
has_words "$seen" '"pools":true,"peers":[1],"ipc":true' \
    'the object has the peers of the first device, and what it supports'
has_words "$(FAKE_CUDA_NO_PEERS=1 devices --json)" '"peers":[]' 'devices that do not reach each other have no peers'
has_words "$(FAKE_CUDA_NO_POOLS=1 devices --json)" '"pools":false,"peers":[1],"ipc":false,"fabric":false,"managed_pools":false,"host_pools":false' \
    'a device without pools supports nothing that needs them'
seen=$(FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain:2 devices --json)
has_words "$seen" '"free_bytes":null' 'a device without a context has no figure of its free memory'
has_words "$(cat "$scratch/said")" 'device 0: free memory is not known: device: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)' \
    'a message says why the free memory is not known'
# The device of that number.
seen=$(FAKE_CUDA_FAIL=cuDeviceGetName:46:2 devices --json)
has_words "$seen" '{"device":0,"error":null,"name":"' 'if one device fails the object has the others'
has_words "$seen" '{"device":1,"error":"device: cuDeviceGetName: CUDA_ERROR_DEVICE_UNAVAILABLE (46)","name":null,"total_bytes":null,"free_bytes":null,"pools":null,"peers":null' \
    'a device that fails has its error, and nulls'
has_words "$seen" '} 1' 'if one device fails devices exits with 1'
has_words "$(cat "$scratch/said")" 'device 1: device: cuDeviceGetName: CUDA_ERROR_DEVICE_UNAVAILABLE (46)' \
    'a message says why a device fails'
seen=$(FAKE_CUDA_FAIL=cuDeviceGetName:46:1 devices)
is "$(echo "$seen" | grep -c -e '^ *0 ? *? *? ? ' -e '^ *1 .* 1 GiB .* yes ') ${seen##* }" '2 1' \
    'if one device fails the table has a line for each, and devices exits with 1'

# What calls cost, in a file that `recommend` reads.
costs=$scratch/costs
FAKE_CUDA_MEMORY=2G
has_words "$(devices --measure --device=1 --output="$costs") $(head -n 4 "$costs" | tail -n 2)" '0 version 3
device Fake' \
    '--measure writes the name of the device'
is "$(grep -cE '^(cuda|driver|vmm)\.[a-z]+ [0-9]+ [0-9.]+ [0-9.]+$' "$costs")" 25 \
    '--measure writes the costs of what each of three bases does'
is "$(grep -c '[.]wait 0 0.000 ' "$costs")" 3 'where growth does not wait for memory that went back, --measure finds no wait'
# On a busy machine the clearing may look faster or slower; the waits are within what growths cost, or else in them.
FAKE_CUDA_CLEAR=24000 devices --measure --device=1 --output="$costs" >"$scratch/measured"
is "$(awk '/[.]wait / && $2 > 1e6 && $2 < 3e6 && $3 > 18000 && $3 < 32000 { waits++ }
    /^cuda.grow / && $3 < 6000 { grows++ } END { print waits + 0, grows + 0 }' "$costs")" '3 1' \
    '--measure finds how fast memory is cleared, and growths have none of that'
FAKE_CUDA_CLEAR=24000 FAKE_CUDA_CLEAR_MISSES=4 devices --measure --device=1 --output="$costs" >"$scratch/measured"
is "$(awk '/[.]wait / && $2 > 1e6 && $2 < 3e6 && $3 > 18000 && $3 < 32000 { waits++ } END { print waits + 0 }' "$costs")" 3 \
    '--measure finds the same where one of four calls happens not to wait'
# Each handle that moves has a call that maps it, half of one that makes it accessible, and one that ends its mapping.
(
    export FAKE_CUDA_MEMORY=640M FAKE_CUDA_SLOW=cuMemMap:300,cuMemSetAccess:200,cuMemUnmap:800
    devices --measure --output="$costs" >"$scratch/measured"
)
is "$(awk '/^vmm.map / && $2 >= 4e5 && $2 < 8e5 { maps++ } /^vmm.unmap / && $2 >= 8e5 { unmaps++ }
    /^vmm.grow / && $2 < 4e5 { grows++ } END { print maps + 0, unmaps + 0, grows + 0 }' "$costs")" '1 1 1' \
    '--measure finds what mapping and unmapping a handle takes, and growths have none of that'
is "$(awk '/^driver.(grow|return) / && $3 > 0 { print $1 }' "$costs" | tr '\n' ' ')" 'driver.grow driver.return ' \
    'on a device with room for chunks of one size alone, what a pool of the driver takes grows with the size'
is "$(FAKE_CUDA_MEMORY=200M devices --measure --output="$costs"; grep -c 'not measured' "$scratch/said")" ' 0
0' '--measure does with a small device, of which it takes a quarter for each base'
is "$(FAKE_CUDA_FAIL=cuMemAlloc:2:60 devices --measure --output="$costs"; grep -c 'cuda is not measured' "$scratch/said")" ' 0
1' 'a call that fails among others keeps the default costs of that base alone'
is "$(FAKE_CUDA_FAIL=cuMemMap:1:700 devices --measure --output="$costs"; grep -c 'vmm is not measured' "$scratch/said") $(grep -c '^vmm.map 30000 ' "$costs")" ' 0
1 1' 'a mapping that fails beside the blocks that stay keeps the default costs of vmm alone'
"$tidemark" recommend --costs="$costs" --candidates=4 "$top_srcdir/tests/data/gpt_train.csv.gz" >"$scratch/recommended" 2>&1
has_words "$(cat "$scratch/recommended")" 'costs of calls: Fake' 'recommend reads the costs that were measured'
has_words "$(FAKE_CUDA_FAIL=cuMemCreate:2 devices --measure --output="$costs"; cat "$scratch/said")" \
    'vmm is not measured, and keeps the costs of an NVIDIA H200: ' 'a base that refuses keeps the default costs, with a message'
rm "$costs"
has_words "$(FAKE_CUDA_FAIL=cuStreamCreate:2 devices --measure --output="$costs"; cat "$scratch/said"; ls "$costs" 2>&1)" ' 1
tidemark devices: device 0: cuda is not measured, and keeps the costs of an NVIDIA H200: no streams on the device: cuStreamCreate: CUDA error 2
tidemark devices: device 0: driver is not measured' 'what cannot be measured is said once, with its own reason'
has_words "$(cat "$scratch/said"; ls "$costs" 2>&1)" 'nothing is measured, and no costs are written
ls: ' 'where nothing can be measured no costs are written, and the exit status is 1'
is "$(devices --measure --device=7)$(devices --measure -d 99999999999)" ' 1 1' \
    'a device that is not there cannot be measured, and the exit status is 1'
has_words "$(devices --measure --json)" ' 2' '--measure has no JSON'
done_testing
