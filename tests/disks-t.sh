# Tests recordings on disks that fill up: file systems that copy on write, and one with small blocks. No program dies of
# it, and each pair of calls that has returned is in the trace or counted there. Needs root and loop devices.
#
# DISK_ROUNDS (2) is how often each file system is filled beside a recording; every second program is killed as well.
# The random numbers come from DISK_SEED. DISK_KINDS ("btrfs xfs ext4") has some of the file systems alone.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
pairs=$top_builddir/tests/pairs
rounds=${DISK_ROUNDS:-2}
seed=${DISK_SEED:-$(date +%s)}
kinds=${DISK_KINDS:-btrfs xfs ext4}
mounted=

disks_end() {
    for disks_at in $mounted; do
        umount "$disks_at" || umount -l "$disks_at"
    done 2>/dev/null
    rm -rf "$scratch"
}
trap disks_end EXIT
exec 3>&1 # the output of a test is not shown, its progress is

for disks_kind in $kinds; do
    case $disks_kind in
    btrfs | xfs | ext4) ;;
    *) echo "Bail out! DISK_KINDS has btrfs, xfs and ext4, not $disks_kind" && exit 2 ;;
    esac
done
plan 5
diag "DISK_SEED=$seed DISK_ROUNDS=$rounds"

# random MOST: print a number from 0 to MOST.
random() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    echo $((seed / 65536 % ($1 + 1)))
}

# disk NAME MIB COMMAND...: make a file system in an image by the command, and mount it at $disk. On failure $why.
disk() {
    why="not in DISK_KINDS"
    case " $kinds " in *" $1 "*) ;; *) return 1 ;; esac
    disk=$scratch/$1
    disks_image=$scratch/$1.img
    truncate -s "$2M" "$disks_image"
    mkdir "$disk"
    shift 2
    why="there is no $1"
    command -v "$1" >/dev/null 2>&1 || return 1
    why="$1 makes no such file system"
    "$@" "$disks_image" >/dev/null 2>&1 || return 1
    why='it cannot be mounted here (root and loop devices are needed)'
    mount -o loop "$disks_image" "$disk" 2>/dev/null || return 1
    mounted="$mounted $disk"
}

# free_kib: how much room the disk has.
free_kib() {
    df -k --output=avail "$disk" | tail -n 1
}

# fill KIB: leave so much room on the disk, or less.
fill() {
    disks_tries=0
    while disks_left=$(free_kib) && test "$disks_left" -gt "$1" && test "$disks_tries" -lt 200; do
        disks_left=$((disks_left - $1))
        test "$disks_left" -le 40 && disks_left=1 || disks_left=$((disks_left - 20))
        dd if=/dev/zero of="$disk/fill" bs=1K count=$disks_left oflag=append conv=notrunc 2>/dev/null
        disks_tries=$((disks_tries + 1))
    done
}

# settle: wait until what was removed is room for others.
settle() {
    disks_tries=0
    while sync -f "$disk" && test "$(free_kib)" -lt 20000 && test "$disks_tries" -lt 100; do
        sleep 0.1
        disks_tries=$((disks_tries + 1))
    done
}

# number SQL: what a query on the trace returns.
number() {
    "$tidemark" query --csv "$disks_trace" "$1" 2>/dev/null | tail -n 1
}

returned() {
    od -An -v -tu8 "$scratch/journal" | "$AWK" '{ for (i = 1; i <= NF; i++) sum += $i } END { printf "%d\n", sum }'
}

# accounted ENDED: whether the trace has what has returned, or says that it does not. ENDED: exited or killed.
accounted() {
    disks_returned=$(returned)
    disks_trace=$disk/t.db
    "$tidemark" summary "$disks_trace" >"$scratch/summary" 2>&1
    disks_code=$?
    # A fast machine records more than the disk has room for: then all of it is taken in elsewhere, as the message says.
    if grep -q "not taken in" "$scratch/summary"; then
        echo 'taken in elsewhere'
        rm -f "$scratch"/whole.db*
        "$tidemark" recover --into="$scratch/whole.db" "$disks_trace" || return 1
        disks_trace=$scratch/whole.db
        "$tidemark" summary "$disks_trace" >"$scratch/summary" 2>&1
        disks_code=$?
    fi
    disks_state=$(number "SELECT (SELECT value FROM meta WHERE key = 'complete') || ' ' || (SELECT count(*) FROM allocation)
        || ' ' || (SELECT coalesce(sum(events), 0) FROM loss WHERE reason LIKE 'allocation after%')
        || ' ' || (SELECT count(*) FROM loss WHERE reason = 'record lost with the ring file')")
    echo "$1: returned $disks_returned; complete, rows, lost, lost with the file: $disks_state; exit status $disks_code"
    test "$disks_code" = 0 || test "$disks_code" = 3 || { cat "$scratch/summary"; return 1; }
    set -- "$1" $disks_state
    test $# = 5 || return 1
    test "$2" = 0 || test "$3" -ge "$disks_returned" || return 1
    grep "not taken in" "$scratch/summary" 2>/dev/null && return 1
    test "$2" = 1 || test "$1" = killed || test "$5" != 0 || test $(($3 + $4)) -ge "$disks_returned"
}

# round KILL SECONDS: record while the disk fills, and check what there is once it has room again.
round() {
    rm -rf "$disk"/t.db* "$disk"/fill* "$disk"/copy
    settle
    "$pairs" "$disk/t.db" "$scratch/journal" "$2" 3 'ring=256KiB, backlog=4MiB' >"$scratch/ready" 2>&1 &
    disks_pid=$!
    disks_tries=0
    while ! grep -q ready "$scratch/ready" 2>/dev/null && test "$disks_tries" -lt 100; do
        sleep 0.1
        disks_tries=$((disks_tries + 1))
    done
    sleep "0.$(random 9)"
    # Pages that two files share are copied when they are written.
    cp --reflink=always "$disk/t.db-rings" "$disk/copy" 2>/dev/null
    for disks_turn in 1 2 3; do
        fill "$(random 64)"
        sleep 0.2
    done
    test "$1" = 0 || { sleep "0.$(random 9)" && kill -9 "$disks_pid"; }
    wait "$disks_pid" 2>/dev/null
    disks_status=$?
    rm -rf "$disk"/fill* "$disk"/copy
    settle
    if test "$1" = 1; then
        test "$disks_status" = 137 && accounted killed
    else
        echo "exit status $disks_status"
        test "$disks_status" = 0 && accounted exited
    fi
}

# all_rounds: whether all rounds end well.
all_rounds() {
    disks_round=0
    while test "$disks_round" -lt "$rounds"; do
        round $((disks_round % 2)) $((3 + disks_round % 2 * 30)) >"$scratch/round" 2>&1 || { cat "$scratch/round"; return 1; }
        disks_round=$((disks_round + 1))
        test $((disks_round % 50)) != 0 || diag "${disk##*/}: $disks_round rounds" >&3
    done
}

# small_reads: whether `summary` of a killed trace ends well whatever room the index of its log finds.
small_reads() {
    for disks_room in 0 4 8 12 16 20 24 28 40; do
        rm -f "$disk"/t.db* "$disk/fill"
        settle
        cp "$scratch/killed.db" "$disk/t.db"
        cp "$scratch/killed.db-wal" "$disk/t.db-wal"
        fill "$disks_room"
        "$tidemark" summary "$disk/t.db" >"$scratch/summary" 2>&1
        disks_status=$?
        echo "$disks_room KiB: exit status $disks_status"
        test "$disks_status" -le 3 || return 1
    done
}

# kill_at_once: leave the files of a killed program in $scratch.
kill_at_once() {
    "$pairs" "$disk/t.db" "$scratch/journal" 10 1 'ring=64KiB, backlog=2MiB' >"$scratch/ready" 2>&1 &
    disks_pid=$!
    sleep 1.5
    kill -9 "$disks_pid"
    wait "$disks_pid" 2>/dev/null
    mv "$disk/t.db" "$scratch/killed.db" && mv "$disk/t.db-wal" "$scratch/killed.db-wal" && rm -f "$disk"/t.db*
}

if disk btrfs 130 mkfs.btrfs -q; then
    ok 'no program dies of a btrfs that fills up, and its trace accounts for all calls' all_rounds
else
    skip 1 "btrfs: $why"
fi
if disk xfs 320 mkfs.xfs -q -m reflink=1; then
    ok 'no program dies of an xfs that fills up beside a copy of its ring file that shares the blocks' all_rounds
else
    skip 1 "xfs: $why"
fi
if disk ext4 100 mkfs.ext4 -q -b 1024 -m 0; then
    ok 'no program dies of an ext4 with small blocks that fills up' all_rounds
    rm -rf "$disk"/t.db*
    ok 'a killed program leaves its files on the disk with small blocks' kill_at_once
    ok 'no command dies of a disk on which the index of a write-ahead log has room in part' small_reads
else
    skip 3 "ext4: $why"
fi
done_testing
